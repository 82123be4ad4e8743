"""The agent that an editor meets: a method for each request of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from acp import PROTOCOL_VERSION
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
)

from transport.errors import NotFound

from ..command_cards import command_cards
from ..errors import BadInput
from .book import Book, Kept
from .door import Door
from .failures import told
from .fleet import LazyFleet
from .goals import Terms, desk_of, visible_agents, workspace_of
from .prompts import Block
from .session import EditorSession

PAGE = 50  # sessions in a list

NO_MCP = "The editor's MCP servers are not used: agents reach those that Muster's operator named.\n"
READ_ONLY = "This is read-only: agents look and answer, and nothing is changed.\n"


class EditorAgent:
    """`by`: who sits at the editor. What it raises becomes an error of the protocol."""

    def __init__(self, fleet: LazyFleet, book: Book, terms: Terms, by: str) -> None:
        self._fleet = fleet
        self._book = book
        self._terms = terms
        self._by = by
        self._client: Client | None = None
        self._has_forms = False
        self._sessions: dict[str, EditorSession] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """The editor has gone: its tasks go on, and `session/load` shows them."""
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*(session.leave() for session in self._sessions.values()), return_exceptions=True)

    @told
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """What each side can do. Whatever version the editor names, it hears which one is spoken here."""
        elicitation = client_capabilities.elicitation if client_capabilities else None
        self._has_forms = elicitation is not None and elicitation.form is not None
        sessions = SessionCapabilities(
            list=SessionListCapabilities(),
            resume=SessionResumeCapabilities(),
            fork=SessionForkCapabilities(),
            close=SessionCloseCapabilities(),
        )
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="muster", title="Muster", version=version("muster")),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=False, sse=False),
                session_capabilities=sessions,
            ),
            auth_methods=[],
        )

    @told
    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> NewSessionResponse:
        session = await self._opened(cwd)
        session.notes += [NO_MCP] if mcp_servers else []
        session.notes += [READ_ONLY] if session.muster.settings.read_only else []
        return NewSessionResponse(session_id=session.kept.session_id, modes=session.modes)

    @told
    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        session = await self._opened(cwd, self._book.get(session_id))
        await session.replay()
        return LoadSessionResponse(modes=session.modes)

    @told
    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> ResumeSessionResponse:
        session = await self._opened(cwd, self._book.get(session_id))
        await session.take_up()
        return ResumeSessionResponse(modes=session.modes)

    @told
    async def fork_session(self, session_id: str, cwd: str, **_: Any) -> ForkSessionResponse:
        """A session of its own, with a copy of what was said and done in this one."""
        kept, muster = self._book.get(session_id), await self._fleet.muster()
        _require_folder(kept, cwd)
        handle = await muster.fork(kept.tasks[-1])
        [result] = await muster.gather([handle])
        if result.errors:
            raise BadInput(result.errors[0].message, hint=result.errors[0].hint)
        begun = {"session": handle.task_id, "near": handle.trace_id, "tasks": (*kept.tasks, handle.task_id)}
        begun |= {"title": kept.title, "applied": kept.applied}
        copied = self._book.change(
            self._book.begin(kept.cwd, kept.root, kept.mode), lambda new: new.model_copy(update=begun)
        )
        session = await self._opened(cwd, copied)
        return ForkSessionResponse(session_id=copied.session_id, modes=session.modes)

    @told
    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        rows = self._book.all(cwd)
        ids = [row.session_id for row in rows]
        start = ids.index(cursor) + 1 if cursor in ids else 0
        page = rows[start : start + PAGE]
        more = page[-1].session_id if len(rows) > start + PAGE else None
        return ListSessionsResponse(sessions=[_info(row) for row in page], next_cursor=more)

    @told
    async def close_session(self, session_id: str, **_: Any) -> None:
        """Its prompt is cancelled, as the protocol wants it. The session is kept, and can be loaded."""
        session = self._session(session_id)
        try:
            await session.close()
        finally:
            if self._sessions.get(session_id) is session:  # it may have been loaded again meanwhile, or closed
                del self._sessions[session_id]

    @told
    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        self._session(session_id).set_mode(mode_id)

    @told
    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> PromptResponse:
        return await self._session(session_id).prompt(prompt)

    @told
    async def cancel(self, session_id: str, **_: Any) -> None:
        if session := self._sessions.get(session_id):
            await session.cancel()

    def _session(self, session_id: str) -> EditorSession:
        try:
            return self._sessions[session_id]
        except KeyError:
            raise NotFound(f"there is no session {session_id[:40]!r} here", hint="begin or load one first") from None

    async def _opened(self, cwd: str, kept: Kept | None = None) -> EditorSession:
        """A new one, or one that was before; its commands are told after the answer."""
        assert self._client is not None
        if kept is not None:
            _require_folder(kept, cwd)
        muster = await self._fleet.muster()
        desk = await desk_of(muster, cwd, await workspace_of(muster, kept) if kept else None)
        agents, usual = await visible_agents(muster, desk)
        if kept is None:
            kept = self._book.begin(cwd, str(desk.root), usual)
        elif kept.mode not in {card.name for card in agents}:
            kept = kept.model_copy(update={"mode": usual})
        door = Door(self._client, kept.session_id, self._by, self._has_forms)
        session = EditorSession(muster, door, self._book, self._terms, kept, desk, agents, command_cards(desk.root))
        await session.settle()
        before, self._sessions[kept.session_id] = self._sessions.get(kept.session_id), session
        if before is not None:
            await before.leave()
            session.refresh()
        telling = asyncio.create_task(session.tell_commands())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        return session


def _require_folder(kept: Kept, cwd: str) -> None:
    if cwd != kept.cwd:
        raise BadInput(f"the session is of the folder {kept.cwd}", hint="open it there")


def _info(kept: Kept) -> SessionInfo:
    at = datetime.fromtimestamp(kept.updated_at_ms / 1000, UTC).isoformat()
    return SessionInfo(session_id=kept.session_id, cwd=kept.cwd, title=kept.title or None, updated_at=at)
