"""An editor closes a session while the fleet takes its time: whatever comes meanwhile, no session is mistaken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from acp import RequestError, text_block
from acp.schema import PromptResponse
from acp_editor import Editor, git

from envelope.agents import AgentCard, WorkerCard
from orchestrator.acp.agent import EditorAgent
from orchestrator.acp.book import Book
from orchestrator.acp.door import Door
from orchestrator.acp.fleet import lazy_fleet
from orchestrator.acp.goals import Terms
from orchestrator.client import Muster
from transport.errors import Unreachable

T = TypeVar("T")

WAIT_S = 60  # for what takes a moment, on a machine that is many times slower
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**"))


class Slow:
    """A fleet's server that answers a cancel once it is let go: with a failure, if it is given one."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.followed, self.asked, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failure: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def follow(self, *names: str, **options: Any) -> Any:
        self.followed.set()
        return self._transport.follow(*names, **options)

    async def cancel(self, task_id: str, **why: str) -> int:
        self.asked.set()
        await self.let_go.wait()
        if self.failure is not None:
            raise self.failure
        return await self._transport.cancel(task_id, **why)


async def within_bounds(what: Awaitable[T]) -> T:
    async with asyncio.timeout(WAIT_S):
        return await what


@dataclass
class Scene:
    """A session with a prompt that is under way."""

    agent: EditorAgent
    server: Slow
    folder: str
    session: str
    prompt: asyncio.Task[PromptResponse]

    def closing(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.agent.close_session(session_id=self.session))

    async def is_open(self) -> bool:
        try:
            await self.agent.set_session_mode(session_id=self.session, mode_id="build")
        except RequestError as e:
            assert "there is no session" in str(e)
            return False
        return True


@pytest_asyncio.fixture
async def scene(memory_stage, tmp_path: Path) -> AsyncIterator[Scene]:
    folder = tmp_path / "project"
    folder.mkdir()
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "start")):
        git(folder, *words)
    card = WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,))
    await memory_stage.transport.announce(card, ttl_s=WAIT_S)
    server = Slow(memory_stage.transport)
    muster = Muster(server, memory_stage.muster.settings)  # pyright: ignore[reportArgumentType]
    async with lazy_fleet(lambda: nullcontext(muster)) as fleet:
        agent = EditorAgent(fleet, Book(tmp_path), Terms(), "me")
        agent.on_connect(Editor())
        session = (await agent.new_session(cwd=str(folder))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("hello")]))
        await within_bounds(server.followed.wait())
        yield Scene(agent, server, str(folder), session, prompt)
        server.let_go.set()
        await agent.close()


async def test_a_session_that_is_loaded_while_it_is_closed_stays(scene: Scene):
    closing = scene.closing()
    await within_bounds(scene.server.asked.wait())
    await scene.agent.load_session(cwd=scene.folder, session_id=scene.session)
    scene.server.let_go.set()
    await closing

    assert (await within_bounds(scene.prompt)).stop_reason == "cancelled"
    assert await scene.is_open()


async def test_a_session_may_be_closed_twice_at_once(scene: Scene):
    closings = [scene.closing(), scene.closing()]
    await within_bounds(scene.server.asked.wait())
    scene.server.let_go.set()
    await asyncio.gather(*closings)

    assert (await within_bounds(scene.prompt)).stop_reason == "cancelled"
    assert not await scene.is_open()


async def test_a_session_is_closed_though_its_prompt_cannot_be_cancelled(scene: Scene):
    scene.server.failure = Unreachable("the server is away")
    scene.server.let_go.set()
    with pytest.raises(RequestError, match="the server is away"):
        await scene.closing()

    assert (await within_bounds(scene.prompt)).stop_reason == "cancelled"
    assert not await scene.is_open()


async def test_what_would_be_asked_of_a_session_that_has_been_left_is_never_begun():
    door, begun = Door(Editor(), "s", "me", has_forms=False), asyncio.Event()

    async def ask() -> str:
        begun.set()
        return "yes"

    assert await door.until_left(ask()) == "yes"
    begun.clear()
    door.left.set()
    assert await door.until_left(ask()) is None
    await asyncio.sleep(0)  # what was begun has its turn
    assert not begun.is_set()
