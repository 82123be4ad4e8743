"""The console over real HTTP, on a fleet whose workers are played by hand; somebody signed in for each role."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvicorn
from fastapi import FastAPI

from envelope.agents import AgentCard, WorkerCard
from orchestrator.api.app import create_app
from orchestrator.api.tokens import Role, Tokens

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))

MAX_LINE_BYTES = 4 * 1024 * 1024  # a message is one line

# What a model or a repository may write: markup, orders to terminals, letters that turn others round.
HOSTILE = "<script>alert(1)</script> \x1b[2J\x1b]0;x\x07 \u202eevil\u2066 \"'><img src=x onerror=alert(1)>"


@dataclass
class Page:
    status: int
    text: str
    headers: Any

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.text)
        assert found, self.text
        return found[1]


@dataclass
class Console:
    """`people`: a browser's cookies for each role of the tenant `default`, for `stranger` of another one, and for
    `nobody`. `root`: where browsers see its pages."""

    url: str
    stage: Any
    tokens: Tokens
    app: FastAPI
    listening: Any  # the server's socket
    secrets: dict[str, str]
    hostile: str = HOSTILE
    root: str = "/console"
    people: dict[str, aiohttp.ClientSession] = field(default_factory=dict[str, aiohttp.ClientSession])

    async def get(self, path: str, *, who: str = "viewer", **options: Any) -> Page:
        return await self._call("GET", path, who, **options)

    async def post(self, path: str, fields: dict[str, str], *, who: str = "admin", csrf: str | None = None) -> Page:
        """A form as the page of the same person sends it."""
        csrf = (await self.get(f"{self.root}/", who=who)).csrf if csrf is None else csrf
        return await self._call("POST", path, who, data={**fields, "csrf": csrf})

    async def work(self, prompt: str, **fields: Any) -> Any:
        return await self.stage.work(prompt, **fields)

    async def news(self, path: str, *, who: str = "viewer", after: str = "") -> AsyncIterator[tuple[str, Any]]:
        """The parts of each message of a page's stream, each with the id of the message."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        async with self.people[who].get(f"{self.url}{self.root}{path}", headers=headers) as response:
            assert response.status == 200, await response.text()
            name = ""
            while line := await response.content.readline(max_line_length=MAX_LINE_BYTES):
                word, _, rest = line.decode().rstrip("\n").partition(": ")
                name = rest if word == "id" else name
                if word == "data" and rest != "{}":
                    yield name, json.loads(rest)

    async def sign_in(self, who: str) -> Page:
        return await self._call("POST", f"{self.root}/sign-in", who, data={"token": self.secrets[who]})

    async def _call(self, method: str, path: str, who: str, **options: Any) -> Page:
        options.setdefault("allow_redirects", False)
        async with self.people[who].request(method, self.url + path, **options) as response:
            return Page(response.status, await response.text(), response.headers)


@asynccontextmanager
async def served_console(stage: Any, folder: Path) -> AsyncIterator[Console]:
    """A server of the stage's fleet; tests/browser has the same one."""
    card = WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,))
    await stage.transport.announce(card, ttl_s=600)
    tokens = Tokens(stage.transport.registry)
    secrets = {role.value: await tokens.create(role.value, role, "default") for role in Role}
    secrets["stranger"] = await tokens.create("stranger", Role.ADMIN, "elsewhere")
    app = create_app(stage.muster)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
    listening = server.servers[0].sockets[0]
    port = listening.getsockname()[1]
    made = Console(f"http://127.0.0.1:{port}", stage, tokens, app, listening, secrets)
    async with AsyncExitStack() as stack:
        for who in (*secrets, "nobody"):
            jar = aiohttp.CookieJar(unsafe=True)  # of an address without a name
            made.people[who] = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        for who in secrets:
            assert (await made.sign_in(who)).status == 303
        yield made
    server.should_exit = True
    server.force_exit = True
    await serving


@pytest.fixture
def serve_console(tmp_path: Path) -> Callable[[Any], AbstractAsyncContextManager[Console]]:
    """`async with serve_console(stage) as console`: for a stage that a test has changed."""
    return lambda stage: served_console(stage, tmp_path)


@pytest_asyncio.fixture
async def console(redis_stage, tmp_path: Path) -> AsyncIterator[Console]:
    async with served_console(redis_stage, tmp_path) as made:
        yield made
