"""An ended batch or goal as the report that every format reads. Pure."""

from __future__ import annotations

from typing import Any

from envelope.events import GateVerdict
from envelope.gate import GateEvidence
from envelope.messages import TaskRequest, TaskResult

from ..gating.text import proof_of, told_by_driver
from .report import BatchReport, RepositoryReport

REPOSITORY = "repository"  # of a goal, which has one and no name for it


def report_of_goal(request: TaskRequest, result: TaskResult, *, cost_microusd: int) -> BatchReport:
    """A goal is a batch of one repository without shards: its change and its gate are told in the same words."""
    told = told_by_driver(result)
    verified, reason = proof_of(result)
    gate: dict[str, Any] = told.get("gate") or {}
    base = request.workspace.base if request.workspace else ""
    first = result.errors[0] if result.errors else None
    one = RepositoryReport(
        name=REPOSITORY,
        base=base,
        commit=str(told.get("commit") or base),
        patch=result.patch,
        verified=verified,
        reason=first.message if first else reason,
        hint=first.hint if first else "",
        before=_verdict(gate.get("before")),
        after=_verdict(gate.get("after")),
        evidence=GateEvidence.model_validate(told.get("evidence") or {}),
        cost_microusd=cost_microusd,
    )
    return BatchReport(name=request.intent or request.agent, repositories=(one,))


def report_of_none(request: TaskRequest, result: TaskResult, *, cost_microusd: int) -> BatchReport:
    """Of what ended before there was anything to report: no reader may take that for a success without cases."""
    reason = result.errors[0].message if result.errors else f"it ended as {result.status}"
    hint = result.errors[0].hint if result.errors else ""
    one = RepositoryReport(name=request.intent, base="", commit="", reason=reason, hint=hint)
    one = one.model_copy(update={"cost_microusd": cost_microusd})
    return BatchReport(name=request.intent or request.agent, repositories=(one,))


def _verdict(said: object) -> GateVerdict | None:
    return GateVerdict.model_validate(said) if said else None
