"""What one sample came to, and what it took."""

from __future__ import annotations

from typing import Any, Literal, cast

from envelope.budget import Metrics, Usage
from envelope.errors import ErrorCode, Turn
from envelope.lifecycle import State
from envelope.messages import TaskResult
from envelope.wire import Wire
from transport.base import Transport

from ..gating.text import told_by_driver
from .matrix import Sample

Outcome = Literal["accepted", "rejected", "budget", "deadline", "failed", "not_run"]
# What says something of the variant. A `failed` sample says nothing of it, nor does one that was never run.
JUDGED: tuple[Outcome, ...] = ("accepted", "rejected", "budget", "deadline")
MAX_TASKS_PER_SAMPLE = 1_000
DETAIL_CHARS = 300
NO_CALL = "what it may spend pays for no model call"
UNSEEN = "an orchestrator that knows no hidden tests has judged it without them; have all be of this version"

# The variant's own doing, whoever the table of codes says can act on it: it ran into what it was held by.
BY_CODE: dict[ErrorCode, Outcome] = {
    ErrorCode.BUDGET: "budget",
    ErrorCode.TURN_LIMIT: "budget",
    ErrorCode.DEADLINE: "deadline",
    ErrorCode.OUT_OF_SCOPE: "rejected",
}


class SampleReport(Wire):
    """`wall_ms`: from its start to its verdict, gate and all. `reused`: done before, and not paid again by this one.

    `cost_microusd`, tokens, turns and tool calls are of all of its tasks. `objections`: why the gate rejected it.
    `hint`: what may mend it, where something says so.
    """

    case: str
    variant: str
    number: int
    outcome: Outcome
    task_id: str = ""
    trace_id: str = ""
    reused: bool = False
    code: str = ""
    detail: str = ""
    hint: str = ""
    objections: tuple[str, ...] = ()
    files: int = 0
    lines: int = 0  # added and removed
    usage: Usage = Usage()
    cost_microusd: int = 0
    turns: int = 0
    tool_calls: int = 0
    wall_ms: int = 0
    cassette: str = ""  # the attachment's blob, where it was recorded

    @property
    def judged(self) -> bool:
        return self.outcome in JUDGED


def outcome_of(result: TaskResult, *, hidden: str) -> Outcome:
    """`hidden`: the commit with the case's hidden tests, empty where it has none. What was accepted without them has
    failed: it says nothing of its variant."""
    if result.status is State.COMPLETED:
        told = told_by_driver(result)
        if told.get("verified") is not True:
            return "rejected"
        return "accepted" if told.get("hidden", "") == hidden else "failed"
    error = result.errors[0] if result.errors else None
    if error is None:
        return "deadline" if result.status is State.EXPIRED else "failed"
    if found := BY_CODE.get(error.code):
        return found
    return "rejected" if error.turn is Turn.MODEL else "failed"


def is_final(result: TaskResult, *, hidden: str) -> bool:
    """Need it not be done again, by whoever runs the suite once more?"""
    return outcome_of(result, hidden=hidden) in JUDGED


async def sample_report(
    transport: Transport, sample: Sample, result: TaskResult, *, hidden: str, reused: bool
) -> SampleReport:
    """`hidden`: as in `outcome_of`."""
    spent = await _spent(transport, result)
    error = result.errors[0] if result.errors else None
    told = told_by_driver(result)
    evidence = cast(dict[str, Any], told.get("evidence") or {})
    patch = result.patch
    cassette = next((one.blob for one in result.attachments if one.name == CASSETTE), "")
    outcome = outcome_of(result, hidden=hidden)
    # a variant that was never asked has not failed
    if outcome == "budget" and error and not (spent.turns or spent.cost_microusd):
        return not_run(sample, NO_CALL).model_copy(
            update={"task_id": result.task_id, "trace_id": result.trace_id, "reused": reused, "code": str(error.code)}
        )
    unseen = outcome == "failed" and result.status is State.COMPLETED
    detail = error.message if error else UNSEEN if unseen else str(told.get("reason") or "")
    return SampleReport(
        case=sample.case.name,
        variant=sample.variant.name,
        number=sample.number,
        outcome=outcome,
        task_id=result.task_id,
        trace_id=result.trace_id,
        reused=reused,
        code=str(error.code) if error else "",
        detail=detail[:DETAIL_CHARS],
        hint=error.hint[:DETAIL_CHARS] if error else "",
        objections=tuple(str(each.get("code")) for each in evidence.get("objections") or ()),
        files=len(patch.files) if patch else 0,
        lines=patch.added + patch.removed if patch else 0,
        usage=spent.usage,
        cost_microusd=spent.cost_microusd,
        turns=spent.turns,
        tool_calls=spent.tool_calls,
        wall_ms=spent.latency_ms,
        cassette=cassette,
    )


CASSETTE = "cassette.jsonl"  # as workers attach it


def not_run(sample: Sample, why: str) -> SampleReport:
    return SampleReport(
        case=sample.case.name, variant=sample.variant.name, number=sample.number, outcome="not_run", detail=why
    )


def failed_as(other: SampleReport, sample: Sample) -> SampleReport:
    """Of a sample that was not begun, since what stopped `other` would stop it, too."""
    why = {"outcome": other.outcome, "code": other.code, "hint": other.hint}
    return not_run(sample, other.detail).model_copy(update=why)


async def _spent(transport: Transport, result: TaskResult) -> Metrics:
    """Over all tasks of the sample's trace: its own counts are without those of its agents.

    The time is its own; a task that the queue has ended at its deadline could not tell it.
    """
    usage, cost_microusd, turns, calls = Usage(), 0, 0, 0
    latency_ms = result.metrics.latency_ms
    for record in await transport.tasks(trace_id=result.trace_id, limit=MAX_TASKS_PER_SAMPLE):
        if record.task_id == result.task_id and not latency_ms and record.started_at_ms and record.finished_at_ms:
            latency_ms = record.finished_at_ms - record.started_at_ms
        if (one := await transport.result(record.task_id)) is not None:
            usage += one.metrics.usage
            cost_microusd += one.metrics.cost_microusd
            turns += one.metrics.turns
            calls += one.metrics.tool_calls
    return Metrics(usage=usage, cost_microusd=cost_microusd, turns=turns, tool_calls=calls, latency_ms=latency_ms)
