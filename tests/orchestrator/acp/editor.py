"""An editor, by the official client library: it starts the real `muster acp`, and its person answers by a script."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeclineElicitationResponse,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)

WAIT_S = 60  # for what takes a second or two, on a machine that is many times slower


@dataclass(repr=False)
class Asked:
    """A choice that was put to the person."""

    ask_id: str
    title: str
    kind: str
    options: dict[str, str]  # name → id
    content: list[Any]
    answer: asyncio.Future[str | None]  # the name of an option; None: the editor takes the question away

    @property
    def text(self) -> str:
        return "\n".join(one.content.text for one in self.content if one.type == "content")

    @property
    def diffs(self) -> dict[str, tuple[str | None, str]]:
        return {one.path: (one.old_text, one.new_text) for one in self.content if one.type == "diff"}

    def choose(self, name: str | None) -> None:
        self.answer.set_result(name)


@dataclass(repr=False)
class Editor:
    """`updates`: all that was told, by session; `story`: with what the person said, and was asked, in between. `asked`:
    what they have not looked at yet."""

    updates: dict[str, list[Any]] = field(default_factory=dict)
    story: dict[str, list[Any]] = field(default_factory=dict)
    asked: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    forms: asyncio.Queue[tuple[Any, asyncio.Future[dict[str, Any] | None]]] = field(default_factory=asyncio.Queue)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    agent: Any = field(init=False)
    process: asyncio.subprocess.Process = field(init=False)

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.setdefault(session_id, []).append(update)
        self.story.setdefault(session_id, []).append(update)
        async with self.news:
            self.news.notify_all()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        named = {option.name: option.option_id for option in options}
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        asked = Asked(
            tool_call.tool_call_id, tool_call.title or "", tool_call.kind or "", named, tool_call.content or [], answer
        )
        self.story.setdefault(session_id, []).append(asked)
        await self.asked.put(asked)
        chosen = await answer
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=named[chosen]))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        await self.forms.put((mode.requested_schema, answer))
        content = await answer
        if content is None:
            return DeclineElicitationResponse(action="decline")
        return AcceptElicitationResponse(action="accept", content=content)

    async def next_form(self) -> tuple[Any, asyncio.Future[dict[str, Any] | None]]:
        async with asyncio.timeout(WAIT_S):
            return await self.forms.get()

    async def next_asked(self) -> Asked:
        async with asyncio.timeout(WAIT_S):
            return await self.asked.get()

    async def until(self, session_id: str, holds: Callable[[list[Any]], Any]) -> Any:
        """What `holds` says of the session's updates, as soon as it says anything."""
        async with asyncio.timeout(WAIT_S), self.news:
            while not (found := holds(self.updates.get(session_id, []))):
                await self.news.wait()
            return found

    async def say(self, session_id: str, words: str, *more: Any) -> Any:
        """`more`: blocks that go along."""
        self.story.setdefault(session_id, []).append(words)
        async with asyncio.timeout(WAIT_S):
            return await self.agent.prompt(session_id=session_id, prompt=[text_block(words), *more])

    def said(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(one.content.text for one in self.updates.get(session_id, []) if one.session_update == kind)

    def calls(self, session_id: str) -> dict[str, dict[str, Any]]:
        """Each tool call as an editor has it in the end: what was told last of each of its fields."""
        calls: dict[str, dict[str, Any]] = {}
        for one in self.updates.get(session_id, []):
            if one.session_update in ("tool_call", "tool_call_update"):
                told = {name: getattr(one, name) for name in ("title", "kind", "status", "content", "locations")}
                known = calls.setdefault(one.tool_call_id, {})
                known.update({name: value for name, value in told.items() if value is not None})
        return calls

    def call(self, session_id: str, title: str) -> dict[str, Any]:
        [found] = [call for call in self.calls(session_id).values() if call["title"] == title]
        return found

    def of_kind(self, session_id: str, kind: str) -> list[Any]:
        return [one for one in self.updates.get(session_id, []) if one.session_update == kind]


@asynccontextmanager
async def editing(
    environment: Mapping[str, str], home: Path, *words: str, forms: bool = False
) -> AsyncIterator[Editor]:
    """An editor that has greeted its agent."""
    editor = Editor()
    with (home / "acp.log").open("ab") as log:
        async with spawn_agent_process(
            editor,
            sys.executable,
            *("-m", "orchestrator.cli.main", "acp", *words),
            env=environment,
            cwd=home,
            transport_kwargs={"stderr": log, "limit": 50 * 1024 * 1024},
            use_unstable_protocol=True,
        ) as (agent, process):
            editor.agent, editor.process = agent, process
            elicitation = ElicitationCapabilities(form=ElicitationFormCapabilities()) if forms else None
            capabilities = ClientCapabilities(elicitation=elicitation)
            async with asyncio.timeout(WAIT_S):
                await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities)
            yield editor


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "init.defaultBranch=main")
    command = ("git", *identity, "-C", str(repository), *words)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
