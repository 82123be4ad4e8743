"""The metrics of both sides as tables: well-formed, documented, and bounded whatever anybody calls their things."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from envelope.errors import ErrorCode
from envelope.events import AskAnswered, AskOpened, CallState, ToolCallChanged, TurnFinished, TurnStarted
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import TERMINAL
from envelope.messages import ErrorInfo, TaskResult
from orchestrator.metrics.table import ORCHESTRATOR
from scripts.metrics_page import PAGE, page
from transport.base import Claim, Lease
from transport.consumer import ConsumerEvent, What
from transport.errors import Misconfigured, QueueFull, TransportError, Unreachable
from transport.metrics.common import COMMON, SCRIPTS, StoreCounts
from transport.metrics.shown import Shown
from transport.metrics.table import Kind, Metric, Table
from workers.llm.base import Failure
from workers.metrics import WorkerMetrics
from workers.metrics.table import WORKER

SIDES = {"worker": WORKER, "orchestrator": ORCHESTRATOR}
MAX_SERIES = 2000
CANARY = "canary-5f1d0c"


def fill(shown: Shown, times: int = 3) -> None:
    """Every metric moves, under labels that nobody has foreseen."""
    for metric in shown.table.values():
        for _ in range(times):
            labels = [uuid4().hex for _ in metric.labels]
            if metric.told:
                shown.tell(metric.name, {tuple(labels): 1.0})
            elif metric.kind is Kind.HISTOGRAM:
                shown.observe(metric.name, *labels, value=1.0, trace_id=uuid4().hex)
            else:
                shown.add(metric.name, *labels)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_promtool_finds_nothing_wrong_with_what_is_shown(side: str, accept: str, debian_program: Callable[[str], str]):
    shown = Shown(SIDES[side])
    fill(shown)
    # promtool reads the plain format alone; the other must hold the same metrics
    text = shown.text("text/plain")[1]

    done = subprocess.run([debian_program("promtool"), "check", "metrics"], input=text, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert names_in(shown.text(accept)[1].decode()) == names_in(text.decode())


def names_in(text: str) -> set[str]:
    return {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)}


@pytest.mark.parametrize("side", SIDES)
def test_every_metric_is_shown_once_it_has_moved_and_nothing_else_is(side: str):
    shown = Shown(SIDES[side])
    fill(shown)

    ours = {name for name in names_in(shown.text()[1].decode()) if not name.startswith("process_")}

    assert ours == {metric.full_name.removesuffix("_total") for metric in SIDES[side]}
    assert len(SIDES[side]) == len({metric.name for metric in SIDES[side]})
    assert "process_open_fds" in shown.text()[1].decode()
    assert not re.search(r"_created[ {]", shown.text()[1].decode())


@pytest.mark.parametrize("metric", {metric.name: metric for metric in (*WORKER, *ORCHESTRATOR)}.values(), ids=str)
def test_a_metric_says_what_it_means_and_how_far_its_labels_reach(metric: Metric):
    assert metric.help and not metric.help.endswith(".")
    assert all(label.bound for label in metric.labels)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert (metric.kind is Kind.HISTOGRAM) == bool(metric.buckets)
    assert len(metric.buckets) <= 14 and list(metric.buckets) == sorted(metric.buckets)


def test_the_page_is_that_of_the_tables():
    assert PAGE.read_text() == page(), "write it again: python -m scripts.metrics_page"


# -- labels of hostile senders


def series(text: str) -> int:
    return sum(not line.startswith("#") for line in text.splitlines())


def hostile_load(metrics: WorkerMetrics, number: int) -> None:
    """One task whose model, tool, agent, tenant, error and question nobody has heard of, and that holds a secret."""
    name = f"{CANARY}-{number}-{uuid4().hex}"
    pool, trace = ("build", f"pool{number}")[number % 2], new_trace_id()
    lease = Lease(new_task_id(), trace, pool, name, 1 + number % 4)
    claim = Claim(lease, name.encode(), 1, 2, 3, lost_leases=number % 4)
    metrics.observe(ConsumerEvent(What.CLAIMED, claim))
    observe = metrics.observer(name, trace)
    known = (name, f"openai/{number}")[number % 2]
    observe(TurnStarted(turn=1, model=known))
    for state in (CallState.RUNNING, CallState.COMPLETED):
        for tool in (name, "bash", "read", f"mcp_{number}"):
            observe(ToolCallChanged(call_id=tool, tool=tool, state=state, title=name, output=name))
    observe(AskOpened(ask_id=name, permission=name, detail=name))
    observe(AskAnswered(ask_id=name, answer=name, by=name))
    observe(TurnFinished(turn=1, finish_reason=name, cost_microusd=1))
    metrics.waited(known, 0.1, 60)
    metrics.refused(known)
    for code in ("ok", "cut_off", *Failure, name):
        metrics.tried(known, code, 1.0, trace)
    metrics.reaped("sweep", 1)
    metrics.opened("cold", 1.0)
    metrics.ran(0.1)
    code = list(ErrorCode)[number % len(ErrorCode)]
    result = TaskResult(
        trace_id=trace, task_id=lease.task_id, attempt=lease.attempt, status=sorted(TERMINAL)[number % len(TERMINAL)],
        errors=(ErrorInfo.of(code, name, name),),
    )  # fmt: skip
    metrics.observe(ConsumerEvent(What.FINISHED, claim, None, result))
    store = StoreCounts(metrics.shown)
    for command in (*SCRIPTS, "plain", name):
        store.answered(command, 0.001)
    for error in errors(name):
        store.failed(error)


def errors(text: str) -> Iterator[Exception]:
    yield from (QueueFull(text, retry_after_s=1.0), Misconfigured(text), Unreachable(text), TransportError(text))


def test_a_workers_series_have_a_bound_and_nothing_of_its_tasks_stands_in_them():
    models = [f"openai/{number}" for number in range(500)]
    metrics = WorkerMetrics("build", models, agents=[f"agent{number}" for number in range(500)], slots=4)
    for number in range(700):
        hostile_load(metrics, number)
    once = metrics.shown.text()[1].decode()
    for number in range(700):
        hostile_load(metrics, number)
    twice = metrics.shown.text()[1].decode()

    assert series(once) == series(twice) < MAX_SERIES
    assert CANARY not in twice
    assert CANARY not in metrics.shown.text("application/openmetrics-text; version=1.0.0")[1].decode()
    assert 'muster_tool_calls_total{outcome="completed",tool="bash"} 1400.0' in twice


def test_what_is_told_of_a_fleet_is_bounded_too_and_goes_when_it_is_unknown():
    shown = Shown(ORCHESTRATOR)
    shown.tell("queue_ready", {(f"pool{number}",): 1 for number in range(1000)})

    before = shown.text()[1].decode()
    shown.untell(["queue_ready"])

    assert len(re.findall(r"^muster_queue_ready\{", before, re.MULTILINE)) == 17
    assert 'muster_queue_ready{pool="other"} 984.0' in before
    assert "muster_queue_ready" not in shown.text()[1].decode()


def test_the_contracts_names_are_all_there():
    """As dashboards, alerts, the chart and its autoscaler know them."""
    names: dict[Table, str] = {
        tuple(WORKER): """
            tasks_finished_total tasks_running tasks_parked_total tasks_retried_total task_duration_seconds
            task_queue_wait_seconds task_deliveries_total lease_lost_total worker_slots worker_claim_loop_age_seconds
            worker_draining sandbox_active sandbox_create_seconds sandbox_created_total sandbox_lost_total
            sandbox_orphans_reaped_total sandbox_warm_size sandbox_warm_hits_total sandbox_warm_misses_total
            sandbox_command_seconds tool_calls_total tool_seconds turns_total llm_requests_total llm_request_seconds
            llm_tokens_total llm_cost_usd_total llm_limiter_limit llm_limiter_wait_seconds llm_rate_limited_total
            llm_arguments_repaired_total approval_wait_seconds redis_command_seconds redis_errors_total redis_up
            certificate_expiry_timestamp_seconds build_info""",
        tuple(ORCHESTRATOR): """
            tasks_submitted_total tasks_finished_total tasks_running queue_ready queue_running queue_parked
            queue_oldest_ready_age_seconds queue_demand queue_slots pool_workers fenced_writes_total leases_reaped_total
            tasks_poisoned_total dead_letter_tasks tasks_overdue
            worker_claim_loop_age_seconds worker_draining budget_remaining_ratio
            tenant_cost_usd_total approvals_pending approval_oldest_age_seconds merge_total merge_seconds verify_total
            gate_seconds changesets batch_shards publications_total redis_command_seconds redis_errors_total redis_up
            event_stream_lag_events certificate_expiry_timestamp_seconds build_info""",
    }
    for table, listed in names.items():
        assert {metric.name for metric in table} == set(listed.split())
    assert {metric.name for metric in COMMON} <= {metric.name for metric in WORKER}


def test_no_other_page_names_a_metric_that_there_is_not():
    known = {metric.full_name for metric in (*WORKER, *ORCHESTRATOR)}
    root = Path(__file__).parent.parent
    pages = [*root.glob("docs/**/*.md"), root / "README.md"]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"`(muster_[a-z_]+_(?:total|seconds|ratio|limit|size|up))\b", page.read_text())
    }
    assert {(where, name) for where, name in named if name not in known} == set()
