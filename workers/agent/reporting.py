"""What of a model's stream is told to those who watch."""

from __future__ import annotations

from envelope.events import CallState, Event, ReasoningDelta, TextDelta, ToolCallChanged, ToolInputDelta

from ..llm.base import CallDelta, CallStarted, Completed, Failed, ModelEvent, Reasoning, Text


def told(event: ModelEvent) -> Event | None:
    """The event for people; None for the ends, which the loop tells in its own words."""
    match event:
        case Text(text):
            return TextDelta(text=text)
        case Reasoning(text):
            return ReasoningDelta(text=text)
        case CallStarted(call_id, name):
            return ToolCallChanged(call_id=call_id, tool=name, state=CallState.PENDING)
        case CallDelta(call_id, text):
            return ToolInputDelta(call_id=call_id, text=text)
        case Completed() | Failed():
            return None
