"""Sessions in the blob store: a turn costs what it added, however long the session is.

A checkpoint is a head: the session without what only grows. That stands in a log of segments, one for each turn, each
naming the one before it.
"""

from __future__ import annotations

from typing import Any

from envelope.messages import ToolCallSummary
from transport.base import Blobs

from .agent.session import Session, Stored
from .llm.base import ChatMessage


class Segment(Stored):
    """What one turn added."""

    before: str | None
    messages: tuple[ChatMessage, ...] = ()
    tool_calls: tuple[ToolCallSummary, ...] = ()


class Head(Session):
    """`log`: the newest segment. What the head holds itself comes before it: a session that is stored whole is one."""

    log: str | None = None


class Checkpoints:
    """The log of one session, as far as this process knows it: load first, if there is something to load."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._newest: str | None = None
        self._messages = 0
        self._tool_calls = 0

    async def load(self, ref: str) -> Session:
        """`NotFound` when a part of it is gone."""
        head = Head.load(await self._blobs.get(ref))
        segments: list[Segment] = []
        before = self._newest = head.log
        while before:
            segments.append(Segment.load(await self._blobs.get(before)))
            before = segments[-1].before
        messages = head.messages + tuple(message for part in reversed(segments) for message in part.messages)
        tool_calls = head.tool_calls + tuple(call for part in reversed(segments) for call in part.tool_calls)
        # what an old head held itself is in no segment yet
        self._messages = len(messages) - len(head.messages)
        self._tool_calls = len(tool_calls) - len(head.tool_calls)
        return Session(**_fields(head, messages=messages, tool_calls=tool_calls))

    async def save(self, session: Session) -> str:
        """The blob of the head."""
        messages, tool_calls = session.messages[self._messages :], session.tool_calls[self._tool_calls :]
        if messages or tool_calls:
            segment = Segment(before=self._newest, messages=messages, tool_calls=tool_calls)
            self._newest = await self._blobs.put(segment.dump())
            self._messages, self._tool_calls = len(session.messages), len(session.tool_calls)
        head = Head(**_fields(session, messages=(), tool_calls=()), log=self._newest)
        return await self._blobs.put(head.dump())


def _fields(session: Session, **changed: Any) -> dict[str, Any]:
    return {name: getattr(session, name) for name in Session.model_fields} | changed
