"""What a worker counts: its tasks as the consumer tells of them, its models as their events do."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import TurnFinished, TurnStarted
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from transport.base import Claim, Lease
from transport.consumer import ConsumerEvent, What
from workers.metrics import WorkerMetrics


def claim(attempt: int = 1, *, waited_ms: int = 2000) -> Claim:
    now_ms = time.time_ns() // 1_000_000
    lease = Lease(new_task_id(), new_trace_id(), "build", "w1", attempt)
    return Claim(lease, b"", now_ms - waited_ms, now_ms, now_ms + 60_000)


def result_of(claimed: Claim, *codes: ErrorCode) -> TaskResult:
    lease = claimed.lease
    return TaskResult(
        trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt,
        status=State.ERROR if codes else State.COMPLETED, errors=tuple(ErrorInfo.of(code, "x") for code in codes),
    )  # fmt: skip


@pytest.fixture
def metrics() -> WorkerMetrics:
    return WorkerMetrics("build", known_models=["openai/known"])


def value(metrics: WorkerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"muster_{name}", labels)


def test_a_task_runs_from_its_claim_to_its_stored_result(metrics: WorkerMetrics):
    claimed = claim()
    metrics.observe(ConsumerEvent(What.CLAIMED, claimed))
    assert value(metrics, "tasks_running", pool="build") == 1

    metrics.observe(ConsumerEvent(What.FINISHED, claimed, None, result_of(claimed)))

    assert value(metrics, "tasks_running", pool="build") == 0
    assert value(metrics, "tasks_finished_total", pool="build", outcome="completed", reason="none") == 1
    assert value(metrics, "task_queue_wait_seconds_sum", pool="build") == pytest.approx(2.0)
    assert value(metrics, "task_duration_seconds_count", pool="build") == 1


def test_what_the_consumer_ends_by_itself_is_counted_with_its_reason(metrics: WorkerMetrics):
    claimed = claim()
    metrics.observe(ConsumerEvent(What.CLAIMED, claimed))
    metrics.observe(ConsumerEvent(What.FINISHED, claimed, None, result_of(claimed, ErrorCode.BAD_INPUT)))

    assert value(metrics, "tasks_finished_total", pool="build", outcome="error", reason="bad_input") == 1


COUNTERS = {What.LOST: "lease_lost_total", What.PARKED: "tasks_parked_total", What.RETRIED: "tasks_retried_total"}


@pytest.mark.parametrize("what", [*COUNTERS, What.GIVEN_BACK])
def test_what_was_not_stored_here_is_not_finished_here(metrics: WorkerMetrics, what: What):
    claimed = claim()
    metrics.observe(ConsumerEvent(What.CLAIMED, claimed))
    metrics.observe(ConsumerEvent(what, claimed))

    assert value(metrics, "tasks_running", pool="build") == 0
    counted = {name: value(metrics, name, pool="build") for name in COUNTERS.values()}
    assert counted == dict.fromkeys(COUNTERS.values(), 0) | ({COUNTERS[what]: 1} if what in COUNTERS else {})
    assert value(metrics, "tasks_finished_total", pool="build", outcome="completed", reason="none") == 0
    assert value(metrics, "task_duration_seconds_count", pool="build") == 0


def test_a_task_waits_once_and_takes_as_long_as_all_its_attempts(metrics: WorkerMetrics):
    first = claim(waited_ms=2000)
    again = replace(claim(2, waited_ms=9000), first_started_at_ms=claim().started_at_ms - 5000)
    metrics.observe(ConsumerEvent(What.CLAIMED, first))
    metrics.observe(ConsumerEvent(What.PARKED, first))
    metrics.observe(ConsumerEvent(What.CLAIMED, again))
    metrics.observe(ConsumerEvent(What.FINISHED, again, None, result_of(again)))

    assert value(metrics, "task_queue_wait_seconds_sum", pool="build") == pytest.approx(2.0)
    assert value(metrics, "task_duration_seconds_count", pool="build") == 1
    assert value(metrics, "task_duration_seconds_sum", pool="build") == pytest.approx(5.0, abs=0.5)


def test_models_that_the_operator_did_not_name_count_as_other():
    metrics = WorkerMetrics("build", known_models=["openai/known"])
    for model in ("openai/known", "surprise/model-1", "surprise/model-2"):
        observe = metrics.observer()
        observe(TurnStarted(turn=1, model=model))
        observe(
            TurnFinished(turn=1, finish_reason="stop", usage=Usage(input_tokens=10, cached_tokens=4), cost_microusd=5)
        )

    def tokens(model: str, kind: str) -> float | None:
        return metrics.registry.get_sample_value("muster_llm_tokens_total", {"model": model, "type": kind})

    assert (tokens("openai/known", "input"), tokens("openai/known", "cache_read")) == (6, 4)
    assert tokens("other", "input") == 12
    assert tokens("surprise/model-1", "input") is None
    spent = {name: value(metrics, "llm_cost_usd_total", model=name) for name in ("openai/known", "other")}
    assert spent == pytest.approx({"openai/known": 5e-6, "other": 10e-6})
