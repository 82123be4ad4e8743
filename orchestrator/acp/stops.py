"""How a task ended, as the end of an editor's turn."""

from __future__ import annotations

from collections.abc import Mapping

from acp.schema import StopReason, Usage

from envelope.errors import ErrorCode
from envelope.messages import TaskResult

from ..gating.text import proof_of, proof_text
from ..session.fold import Session
from ..units import dollars, duration
from ..words import counted
from .failures import task_error

# What ends a turn without being a failure of the request: the agent's part is over, and the words say why.
STOPS: Mapping[ErrorCode, StopReason] = {
    ErrorCode.CANCELLED: "cancelled",
    ErrorCode.BUDGET: "max_tokens",
    ErrorCode.DEADLINE: "max_turn_requests",
    ErrorCode.TURN_LIMIT: "max_turn_requests",
    ErrorCode.REFUSED: "end_turn",
    ErrorCode.GATE_FAILED: "end_turn",
    ErrorCode.OUT_OF_SCOPE: "end_turn",
    ErrorCode.NO_ANSWER: "end_turn",
    ErrorCode.PLAN_INCOMPLETE: "end_turn",
    ErrorCode.COLLISION: "end_turn",
}
LIMITS = (ErrorCode.BUDGET, ErrorCode.DEADLINE, ErrorCode.TURN_LIMIT)


def stop_of(result: TaskResult) -> StopReason:
    """Raises the error of a task that could not be done."""
    if not result.errors:
        return "end_turn"
    error = result.errors[0]
    if error.code not in STOPS:
        raise task_error(error)
    return STOPS[error.code]


def end_text(view: Session, result: TaskResult) -> str:
    """One line under the answer: how it ended, what changed, what it cost. *Done* and *verified* are not the same."""
    facts = [_how(result)]
    if result.patch and result.patch.files:
        files = counted(len(result.patch.files), "file")
        facts.append(f"{files} changed in this session, +{result.patch.added} −{result.patch.removed}")
    facts.append(dollars(cost_microusd(view, result)))
    if result.metrics.latency_ms:  # the queue, which ends what is cancelled, did not measure it
        facts.append(duration(result.metrics.latency_ms))
    return f"\n\n— {' · '.join(facts)}"


def cost_microusd(view: Session, result: TaskResult) -> int:
    """Of the task and all below it; the stream may have forgotten some of them."""
    return max(view.cost_microusd, result.metrics.cost_microusd)


def _how(result: TaskResult) -> str:
    if result.errors:
        error = result.errors[0]
        goes_on = "; say more to go on with new limits" if error.code in LIMITS else ""
        return f"{error.code}: {error.message.splitlines()[0]}{goes_on}"
    verified, reason = proof_of(result)
    return proof_text(verified=verified, reason=reason)


def usage_of(view: Session) -> Usage:
    """Of all that the turn had done, subagents included."""
    used = view.usage
    return Usage(
        total_tokens=used.total_tokens,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        thought_tokens=used.reasoning_tokens,
        cached_read_tokens=used.cached_tokens,
        cached_write_tokens=used.cache_write_tokens,
    )
