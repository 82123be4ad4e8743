"""What tools a model is offered, and having its calls answered: no more of them than the budget allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from envelope.events import ToolCallChanged

from ..llm.base import ToolCall, ToolSpec
from ..tools.base import Tool, ToolResult

OnChange = Callable[[ToolCallChanged], None]
RunCalls = Callable[[Sequence[ToolCall], OnChange], Awaitable[list[ToolResult]]]

OVER_BUDGET = "Not run: the budget of tool calls is used up. Finish with what you have."


@dataclass(frozen=True, slots=True)
class Answered:
    call: ToolCall
    result: ToolResult
    duration_ms: int = 0
    ran: bool = True


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
    refused = ToolResult(OVER_BUDGET, is_error=True)
    return ran + [Answered(call, refused, ran=False) for call in calls[len(affordable) :]]
