"""What tools a model is offered, and having its calls answered: no more of them than the budget allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from envelope.events import ToolCallChanged
from envelope.messages import TaskResult

from ..clock import now_ms
from ..llm.base import ToolCall, ToolSpec
from ..tools.background import Background, started
from ..tools.base import CallResult, Delegated, Tool, ToolContext, ToolResult
from ..tools.dispatch import ended_event
from ..tools.task import answer_of

OnChange = Callable[[ToolCallChanged], None]
RunCalls = Callable[[Sequence[ToolCall], OnChange], Awaitable[list[CallResult]]]

OVER_BUDGET = "Not run: the budget of tool calls is used up. Finish with what you have."


@dataclass(frozen=True, slots=True)
class Answered:
    """A call and what came of it; `ran` is False for one that the budget did not allow."""

    call: ToolCall
    result: CallResult
    duration_ms: int = 0
    ran: bool = True

    @property
    def child(self) -> str:
        """The task whose result is still to come; empty when the call has its answer."""
        return self.result.child_task_id if isinstance(self.result, Delegated) else ""

    @property
    def waits(self) -> bool:
        """Is its answer still to come: from a subagent, or after people have said that it may run?"""
        return not isinstance(self.result, ToolResult)


def offer(tools: Mapping[str, Tool]) -> list[ToolSpec]:
    """The tools as a model sees them, by name: a stable start of the request is one that providers cache."""
    return [ToolSpec(name, tool.description, tool.parameters) for name, tool in sorted(tools.items())]


async def answer(calls: Sequence[ToolCall], run_calls: RunCalls, emit: OnChange, *, left: int | None) -> list[Answered]:
    """One answer for each call, in their order; those beyond `left` are told that they did not run."""
    affordable = calls if left is None else calls[:left]
    durations_ms: dict[str, int] = {}

    def note(change: ToolCallChanged) -> None:
        if change.ended_at_ms:
            durations_ms[change.call_id] = change.ended_at_ms - change.started_at_ms
        emit(change)

    results = await run_calls(affordable, note) if affordable else []
    ran = [
        Answered(call, result, durations_ms.get(call.id, 0)) for call, result in zip(affordable, results, strict=True)
    ]
    return ran + _not_run(calls[len(affordable) :])


def cut_off(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Answered]:
    """One answer for each of some calls that were stopped; those without a result were beyond the budget."""
    return [*map(Answered, calls, results), *_not_run(calls[len(results) :])]


def _not_run(calls: Sequence[ToolCall]) -> list[Answered]:
    return [Answered(call, ToolResult(OVER_BUDGET, is_error=True), ran=False) for call in calls]


async def collect(answers: Sequence[Answered], context: ToolContext, emit: OnChange) -> list[Answered]:
    """The answers with those of subagents in their places that have ended, or do so soon, and of those that people have
    sent to the background; others stay as they are."""
    children, out = context.children, [answer.child for answer in answers if answer.child]
    if not out:
        return list(answers)
    sent = await children.sent_to_background(out)
    # one of them may have ended meanwhile: its result is the answer, and nobody hears of it a second time
    ended = dict(await children.ended_by_now(sent)) if sent else {}
    if waited_for := [child for child in out if child not in sent]:
        ended |= await children.ended(waited_for)
    return [_taken(answer, ended.get(answer.child), answer.child in sent, context, emit) for answer in answers]


def _taken(
    answered: Answered, ended: TaskResult | None, is_sent: bool, context: ToolContext, emit: OnChange
) -> Answered:
    if not isinstance(answered.result, Delegated) or (ended is None and not is_sent):
        return answered
    if ended and ended.patch and ended.patch.files:
        context.may_have_written = True
    result = answer_of(ended, title=answered.result.title) if ended else started(_background(answered.result))
    change = ended_event(answered.call, result, answered.result.started_at_ms, now_ms())
    emit(change)
    return replace(answered, result=result, duration_ms=change.ended_at_ms - change.started_at_ms)


def _background(call: Delegated) -> Background:
    return Background(call.child_task_id, call.session or call.child_task_id, call.agent, call.title)
