"""The tape that records: lines are gathered during a turn, and stored with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from pydantic import TypeAdapter

from envelope.messages import Attachment
from transport.blobs.base import Blobs

from ..agent.calls import RunCalls, offer
from ..agent.session import Session
from ..agents.base import Agent
from ..delivery.attempt import Attempt
from ..llm.base import ChatMessage, ModelEvent
from ..llm.cassette import (
    Answers,
    Ended,
    Entry,
    Exhausted,
    Fields,
    Heard,
    HeardOfChildren,
    Kept,
    Offered,
    Recorded,
    Request,
    ToolAnswer,
    call_line,
    written,
)
from ..llm.retry import Retrying
from ..tools.base import Tool
from .tape import Foreign, Hear, Told

T = TypeVar("T")
AGENTS = TypeAdapter(Agent)

CASSETTE = "cassette.jsonl"
# What a task was, under these names: enough to run it again when its record is gone.
REQUEST, AGENT, EARLIER = "request", "agent", "earlier"


class Recorder:
    """A piece for each turn, which names the piece before it; a session names the newest, and so another attempt goes
    on with it. What a turn said that was never stored is in no piece either."""

    def __init__(self, blobs: Blobs, attempt: Attempt) -> None:
        self._blobs = blobs
        self._lines: list[str] = []
        self._last_request: Request | None = None
        self._messages = 0  # of the session, whose answers are on the cassette or were there before it
        # an attempt that goes on knows nothing of what the one before it was offered: its first list is written down
        self._offered: tuple[Fields, ...] | None = () if attempt.claim.checkpoint is None else None
        if attempt.claim.checkpoint is None:
            self._add(Kept(name=REQUEST, value=attempt.request.model_dump(mode="json")))
            self._add(Kept(name=AGENT, value=AGENTS.dump_python(attempt.agent, mode="json")))
            self._add(Kept(name=EARLIER, value=attempt.claim.session))

    async def kept(self, name: str, kind: TypeAdapter[T], find: Callable[[], Awaitable[T]]) -> T:
        found = await find()
        self._add(Kept(name=name, value=kind.dump_python(found, mode="json")))
        return found

    def model(self, model: Retrying) -> Retrying:
        return replace(model, model=Recorded(model.model, self._note_call))

    def run_calls(self, run: RunCalls) -> RunCalls:
        return run  # a call's answer may come in another attempt; it is taken from the session

    def hear(self, hear: Hear) -> Hear:
        async def listen() -> Sequence[str]:
            prompts = await hear()
            if prompts:
                self._add(Heard(prompts=tuple(prompts)))
            return prompts

        return listen

    def told(self, told: Told) -> Told:
        async def listen(session: Session) -> Mapping[str, str]:
            words = await told(session)
            if words:
                self._add(HeardOfChildren(words=dict(words)))
            return words

        return listen

    def foreign(self, tools: Foreign) -> Foreign:
        """The same tools; a change of what is offered is an entry."""

        async def look() -> Sequence[Tool]:
            found = await tools()
            offered = tuple(asdict(spec) for spec in offer({tool.name: tool for tool in found}))
            if offered != self._offered:
                self._offered = offered
                self._add(Offered(tools=offered))
            return found

        return look

    def exhausted(self, exhausted: Callable[[], str]) -> Callable[[], str]:
        def ask() -> str:
            if whose := exhausted():
                self._add(Exhausted(whose=whose))
            return whose

        return ask

    def opened(self, session: Session) -> None:
        self._messages = len(session.messages)

    async def saving(self, session: Session) -> Session:
        """The session with the piece of tape since the last checkpoint, which names the piece before it."""
        answered = [message for message in session.messages[self._messages :] if message.role == "tool"]
        if answered:
            self._add(Answers(answers=tuple(map(_answer, answered))))
        self._messages = len(session.messages)
        if session.outcome is not None:
            self._add(Ended(text=session.outcome.text, error=str(session.outcome.error or "")))
        piece = "\n".join([json.dumps({"before": session.cassette}), *self._lines])
        self._lines = []
        return session.model_copy(update={"cassette": await self._blobs.put(piece.encode())})

    def _note_call(self, request: Request, reply: Sequence[ModelEvent]) -> None:
        self._add(call_line(self._last_request, request, reply))
        self._last_request = request

    def _add(self, entry: Entry) -> None:
        self._lines.append(written(entry))


async def whole(blobs: Blobs, newest: str) -> str:
    """All pieces of a cassette, in their order."""
    pieces: list[str] = []
    ref: str | None = newest
    while ref:
        head, _, lines = (await blobs.get(ref)).decode().partition("\n")
        pieces.append(lines)
        ref = json.loads(head)["before"]
    return "\n".join(piece for piece in reversed(pieces) if piece)


async def attachments(blobs: Blobs, session: Session) -> tuple[Attachment, ...]:
    """The cassette of a session that was recorded, as one file."""
    if session.cassette is None:
        return ()
    content = (await whole(blobs, session.cassette)).encode()
    blob, size_bytes = await blobs.put(content), len(content)
    return (Attachment(blob=blob, name=CASSETTE, media_type="application/jsonl", size_bytes=size_bytes),)


def _answer(message: ChatMessage) -> ToolAnswer:
    return ToolAnswer(
        call_id=message.tool_call_id,
        name=message.name,
        content=message.content,
        is_error=message.is_error,
        files=message.files,
    )
