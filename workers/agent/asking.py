"""One model call as watchers see it: reported while it streams, returned when it is whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing

from envelope.events import (
    CallState,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallChanged,
    ToolInputDelta,
    WarningRaised,
)

from ..llm.arguments import ARGUMENTS_REPAIRED
from ..llm.base import (
    CallDelta,
    CallStarted,
    ChatMessage,
    ChatModel,
    Completed,
    Failed,
    Failure,
    HiddenReasoning,
    ModelEvent,
    Reasoning,
    Text,
    ToolChoice,
    ToolSpec,
)


async def ask(
    model: ChatModel,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    emit: Callable[[Event], None],
    tool_choice: ToolChoice = "auto",
) -> Completed | Failed:
    """Stream one reply; what a failed try had reported, the next one reports again."""
    async with aclosing(model.stream(messages, tools, tool_choice)) as events:
        async for event in events:
            if isinstance(event, Completed | Failed):
                for warning in _warnings(event):
                    emit(warning)
                return event
            if news := _event_of(event):
                emit(news)
    return Failed(Failure.UNAVAILABLE, "the model's stream stopped without an end")


def _warnings(reply: Completed | Failed) -> list[WarningRaised]:
    if isinstance(reply, Failed):
        return []
    repaired = [call.name for call in reply.tool_calls if call.repaired]
    return [WarningRaised(message=remark) for remark in reply.remarks] + [
        WarningRaised(
            message=f"the model's arguments for {name} were broken JSON, and were mended", code=ARGUMENTS_REPAIRED
        )
        for name in repaired
    ]


def _event_of(event: ModelEvent) -> Event | None:
    """What watchers see of a stream; None for what nobody can read, and for its end, which the loop tells."""
    match event:
        case Text(text):
            return TextDelta(text=text)
        case Reasoning(text):
            return ReasoningDelta(text=text)
        case CallStarted(call_id, name):
            return ToolCallChanged(call_id=call_id, tool=name, state=CallState.PENDING)
        case CallDelta(call_id, text):
            return ToolInputDelta(call_id=call_id, text=text)
        case HiddenReasoning() | Completed() | Failed():
            return None
