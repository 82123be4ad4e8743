"""One message of each kind with every field set, and strategies that make many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from envelope import events as ev
from envelope.budget import Budget, Metrics, Usage
from envelope.errors import ErrorCode
from envelope.lifecycle import TERMINAL, State
from envelope.messages import (
    Attachment,
    ContextRef,
    ErrorInfo,
    FileStat,
    Output,
    PatchRef,
    Priority,
    Provenance,
    TaskInput,
    TaskProgress,
    TaskRequest,
    TaskResult,
    ToolCallSummary,
    Workspace,
)
from envelope.plan import OnFailure, Plan, PlanStep, StepStatus

TASK, PARENT = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
BLOB = "sha256:" + "ab" * 32

PLAN = Plan(
    goal="port it",
    version=2,
    allow_replan=True,
    max_replans=1,
    steps=(
        PlanStep(
            step_id="a", title="look", goal="find it", agent="explore", auth_scope=("read:**",), deadline_ms=1000,
            on_failure=OnFailure.RETRY, status=StepStatus.DONE, outcome="found", budget=Budget(max_turns=3),
        ),
        PlanStep(step_id="b", title="change", goal="change it", agent="build", depends_on=("a",)),
    ),
)  # fmt: skip

# Those that stand in the golden bytes, which are never written again.
GOLDEN_EVENTS = (
    ev.StateChanged(state=State.RUNNING, reason="given back", worker="w1"),
    ev.TurnStarted(turn=1, model="m"),
    ev.TextDelta(text="héllo"),
    ev.ReasoningDelta(text="so"),
    ev.ToolCallChanged(
        call_id="c1", tool="bash", state=ev.CallState.COMPLETED, title="ls", input={"command": "ls"}, output="a.py",
        started_at_ms=1, ended_at_ms=2,
    ),
    ev.ToolInputDelta(call_id="c1", text='{"co'),
    ev.TurnFinished(turn=1, finish_reason="stop", usage=Usage(input_tokens=5, output_tokens=2), cost_microusd=7),
    ev.MessageAdded(role="user", text="go on", synthetic=True),
    ev.FileChanged(path="src/a.py", status="A"),
    ev.AskOpened(ask_id="q1", permission="bash", patterns=("rm *",), question="May I?", detail="rm -r build"),
    ev.AskAnswered(ask_id="q1", answer="once", by="me", comment="fine"),
    ev.TodoUpdated(todos=(ev.Todo(content="x", status="in_progress", priority="high"),)),
    ev.PlanChanged(plan=PLAN),
    ev.TitleSet(title="Port it"),
    ev.RetryScheduled(attempt=2, wait_ms=500, reason="overloaded"),
    ev.Compacted(tokens_before=1000, tokens_after=100),
    ev.ChildSpawned(child_task_id=PARENT, agent="explore", title="look", trace_id=TRACE),
    ev.ChildEnded(child_task_id=PARENT, state=State.COMPLETED, reused=True, cost_microusd=3, error="none"),
    ev.BudgetReached(limit="cost", spent=5, allowed=4),
    ev.MergeStep(key="a", outcome="collision", paths=("a.py",), with_keys=("b",), detail="both changed it"),
    ev.GateVerdict(phase="after", passed=True, tests=214, failed=0, skipped=1, detail="pytest"),
    ev.WarningRaised(message="careful", hint="look"),
    ev.UnknownEvent.model_validate({"kind": "from_the_future", "x": 1, "deep": {"y": [True, None]}}),
)  # fmt: skip

EVENTS = (*GOLDEN_EVENTS, ev.Resynced())

REQUEST = TaskRequest(
    task_id=TASK, trace_id=TRACE, parent_task_id=PARENT, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01",
    sender="muster", recipient="build", agent="build", intent="refactor",
    input=TaskInput(prompt="do it", params={"n": 1, "list": [1.5, None, {"a": "b"}]}),
    context_refs=(ContextRef(type="file", id="src/a.py", range=(1, 20)),),
    attachments=(Attachment(blob=BLOB, name="log.txt", media_type="text/plain", size_bytes=10),),
    workspace=Workspace(bundle=BLOB, base="abc", subpath="src", changes=BLOB, setup=("pip install six",)),
    auth_scope=("read:**", "edit:src/**"), capabilities=("read", "edit"),
    budget=Budget(max_cost_microusd=5_000_000, max_tokens=100, max_turns=10, max_tool_calls=20),
    deadline_ms=60_000, idempotency_key="k", priority=Priority.HIGH, tenant="acme", resume_token="r", model="m",
    output_schema={"type": "object"}, batch_id="b", retry_of=PARENT, created_at_ms=1_700_000_000_000,
)  # fmt: skip

METRICS = Metrics(
    usage=Usage(input_tokens=9, output_tokens=4, cached_tokens=2, reasoning_tokens=1),
    cost_microusd=12, latency_ms=30, queue_ms=4, turns=2, tool_calls=3,
)  # fmt: skip

PROGRESS = TaskProgress(
    trace_id=TRACE, task_id=TASK, attempt=2, seq=7, at_ms=1_700_000_000_001, status=State.RUNNING, events=GOLDEN_EVENTS,
    metrics=METRICS, partial_output="so far",
)  # fmt: skip

RESULT = TaskResult(
    trace_id=TRACE, task_id=TASK, attempt=2, status=State.ERROR,
    output=Output(text="here", structured={"files": ["a.py"]}),
    attachments=(Attachment(blob=BLOB, name="shot.png", media_type="image/png", size_bytes=3),),
    patch=PatchRef(
        base="abc", diff=BLOB, added=3, removed=1, tree="def",
        files=(FileStat(path="a.py", status="M", added=3, removed=1), FileStat(path="b.bin", status="R", old_path="c")),
    ),
    errors=(ErrorInfo.of(ErrorCode.GATE_FAILED, "2 tests failed", "look at them"),),
    provenance=(Provenance(claim="it is here", path="a.py", line=3, end_line=5, task_id=TASK, url="https://e.org"),),
    tool_calls=(ToolCallSummary(tool="bash", title="pytest", is_error=True, duration_ms=900),),
    metrics=METRICS, resume_token="s1",
)  # fmt: skip

# -- strategies


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


text = st.text(max_size=30)
number = st.integers(0, 2**40)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
params = st.dictionaries(text, plain, max_size=3)
names = st.from_regex(r"[A-Za-z0-9_./-]{1,20}", fullmatch=True)
grants = st.from_regex(r"[a-z*]{1,6}:[a-z*/ ]{1,8}", fullmatch=True)
usages = st.builds(Usage, input_tokens=number, output_tokens=number, cached_tokens=number, reasoning_tokens=number)
metrics = st.builds(Metrics, usage=usages, cost_microusd=number, latency_ms=number, turns=number)
budgets = st.builds(Budget, max_cost_microusd=st.none() | number, max_turns=st.none() | number)

events = st.sampled_from(EVENTS) | st.one_of(
    st.builds(ev.StateChanged, state=st.sampled_from(State), reason=text, worker=text),
    st.builds(ev.TextDelta, text=text),
    st.builds(
        ev.ToolCallChanged, call_id=text, tool=text, state=st.sampled_from(ev.CallState), input=st.none() | params
    ),
    st.builds(ev.TurnFinished, turn=number, finish_reason=text, usage=usages, cost_microusd=number),
    st.builds(
        ev.GateVerdict, phase=st.sampled_from(["before", "after"]), passed=st.booleans(), tests=st.none() | number
    ),
    st.builds(
        lambda kind, fields: ev.UnknownEvent.model_validate({**fields, "kind": kind}),
        text.filter(lambda kind: kind not in ev.KINDS),
        params,
    ),
)
requests = st.builds(
    TaskRequest, task_id=st.just(TASK), trace_id=st.just(TRACE), sender=text, recipient=names, agent=names,
    parent_task_id=st.none() | st.just(PARENT), input=st.builds(TaskInput, prompt=text, params=params),
    auth_scope=st.lists(grants, max_size=4).map(tuple), budget=budgets, priority=st.sampled_from(Priority),
    deadline_ms=st.integers(1, 2_592_000_000), idempotency_key=text, output_schema=maybe(params), created_at_ms=number,
    tenant=names,
)  # fmt: skip
progresses = st.builds(
    TaskProgress, trace_id=st.just(TRACE), task_id=st.just(TASK), attempt=number, seq=st.integers(-1, 2**40),
    at_ms=number, status=st.sampled_from(State), events=st.lists(events, max_size=4).map(tuple),
    metrics=st.none() | metrics, partial_output=st.none() | text,
)  # fmt: skip
results = st.builds(
    TaskResult, trace_id=st.just(TRACE), task_id=st.just(TASK), attempt=number,
    status=st.sampled_from(sorted(TERMINAL)), output=st.builds(Output, text=text, structured=plain), metrics=metrics,
    errors=st.lists(st.builds(ErrorInfo.of, st.sampled_from(ErrorCode), text, text), max_size=2).map(tuple),
)  # fmt: skip


@pytest.fixture(scope="session")
def samples() -> SimpleNamespace:
    return SimpleNamespace(request=REQUEST, progress=PROGRESS, result=RESULT, events=EVENTS)


@pytest.fixture(scope="session")
def strategies() -> SimpleNamespace:
    return SimpleNamespace(messages=requests | progresses | results, events=events, plain=plain)
