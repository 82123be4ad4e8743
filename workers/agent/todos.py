"""The todo list of a session, found again in its history: each write that succeeded holds the whole list. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from envelope.events import Todo

from ..llm.base import ToolCall
from ..tools.base import ToolResult
from ..tools.todo import WRITE, todos_in
from .session import Session


def todos_of(session: Session) -> tuple[Todo, ...]:
    """As the last successful `todowrite` left it, also one of a turn that is still open."""
    writes = [call.input for call in _succeeded(session) if call.name.lower() == WRITE and call.input is not None]
    return todos_in(writes[-1]) if writes else ()


def _succeeded(session: Session) -> Iterator[ToolCall]:
    """Answers stand in the order of their calls; an id alone may come twice."""
    waiting: Iterator[ToolCall] = iter(())
    for message in session.messages:
        if message.tool_calls:
            waiting = iter(message.tool_calls)
        elif message.role == "tool":
            call = next(waiting, None)
            if call is not None and call.id == message.tool_call_id and not message.is_error:
                yield call
    for answered in session.open_turn:
        if isinstance(answered.result, ToolResult) and not answered.result.is_error:
            yield answered.call
