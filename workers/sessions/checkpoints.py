"""Sessions in the blob store: a turn costs what it added, however long the session is.

A checkpoint is a head: the session without what only grows. That stands in a log of segments, one for each turn, each
naming the one before it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from envelope.ids import blob_ref
from envelope.messages import ToolCallSummary
from transport.blobs.base import Blobs

from ..agent.session import Session, Stored
from ..errors import BadInput
from ..llm.base import ChatMessage

S = TypeVar("S", bound=Stored)


class Work(Stored):
    """Where the work stood: `changes` as in the session."""

    changes: str | None


class Segment(Stored):
    """What one turn added. `opens`: with it a task begins to go on with the session, and counts its calls anew.

    `work` is of the end of the turn; None in what an earlier version stored.
    """

    before: str | None
    messages: tuple[ChatMessage, ...] = ()
    tool_calls: tuple[ToolCallSummary, ...] = ()
    opens: bool = False
    work: Work | None = None


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
        self._opens = False

    async def load(self, ref: str) -> Session:
        """`NotFound` when a part of it is gone."""
        head, segments = await read_log(self._blobs, ref)
        self._newest = head.log
        messages = head.messages + tuple(message for _, part in segments for message in part.messages)
        openings = [index for index, (_, part) in enumerate(segments) if part.opens]
        own = segments[openings[-1] if openings else 0 :]
        earlier = () if openings else head.tool_calls
        tool_calls = earlier + tuple(call for _, part in own for call in part.tool_calls)
        # what an old head held itself is in no segment yet
        self._messages = len(messages) - len(head.messages)
        self._tool_calls = len(tool_calls) - len(earlier)
        return Session(**_fields(head, messages=messages, tool_calls=tool_calls))

    async def load_to_go_on(self, ref: str) -> Session:
        """As `load`, for another task: its turns join the log, and its tool calls are counted from nothing."""
        session = await self.load(ref)
        self._tool_calls, self._opens = 0, True
        return session

    async def save(self, session: Session) -> str:
        """The blob of the head."""
        messages, tool_calls = session.messages[self._messages :], session.tool_calls[self._tool_calls :]
        newest, stored = self._newest, list[bytes]()
        if messages or tool_calls:
            segment = Segment(
                before=self._newest,
                messages=messages,
                tool_calls=tool_calls,
                opens=self._opens,
                work=Work(changes=session.changes),
            )
            stored.append(segment.dump())
            newest = blob_ref(stored[0])
        head = Head(**_fields(session, messages=(), tool_calls=()), log=newest)
        refs = await self._blobs.put_all([*stored, head.dump()])
        if stored:
            self._newest, self._opens = newest, False
            self._messages, self._tool_calls = len(session.messages), len(session.tool_calls)
        return refs[-1]


async def read_log(blobs: Blobs, ref: str) -> tuple[Head, list[tuple[str, Segment]]]:
    """A checkpoint's head, and its segments by their blobs, oldest first.

    `NotFound` when one is gone, `BadInput` when it is none.
    """
    head = await _stored(Head, blobs, ref)
    segments: list[tuple[str, Segment]] = []
    before = head.log
    while before:
        segments.append((before, await _stored(Segment, blobs, before)))
        before = segments[-1][1].before
    return head, segments[::-1]


async def _stored(kind: type[S], blobs: Blobs, ref: str) -> S:
    try:
        return kind.load(await blobs.get(ref))
    except ValidationError as e:
        why = f"what is stored of the session cannot be read ({ref})"
        raise BadInput(
            why, hint="it is damaged, or of a version that this worker does not know: begin a new one"
        ) from e


def _fields(session: Session, **changed: Any) -> dict[str, Any]:
    return {name: getattr(session, name) for name in Session.model_fields} | changed
