"""The console over real HTTP, on a fleet whose workers are played by hand; somebody signed in for each role."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio
import uvicorn
from fastapi import FastAPI

from envelope.agents import AgentCard, WorkerCard
from orchestrator.api.app import create_app
from orchestrator.api.tokens import Role, TokenFile

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))


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
    `nobody`."""

    url: str
    stage: Any
    tokens: TokenFile
    app: FastAPI
    secrets: dict[str, str]
    people: dict[str, aiohttp.ClientSession] = field(default_factory=dict[str, aiohttp.ClientSession])

    async def get(self, path: str, *, who: str = "viewer", **options: Any) -> Page:
        return await self._call("GET", path, who, **options)

    async def post(self, path: str, fields: dict[str, str], *, who: str = "admin", csrf: str | None = None) -> Page:
        """A form as the page of the same person sends it."""
        csrf = (await self.get("/console/", who=who)).csrf if csrf is None else csrf
        return await self._call("POST", path, who, data={**fields, "csrf": csrf})

    async def sign_in(self, who: str) -> Page:
        return await self._call("POST", "/console/sign-in", who, data={"token": self.secrets[who]})

    async def _call(self, method: str, path: str, who: str, **options: Any) -> Page:
        options.setdefault("allow_redirects", False)
        async with self.people[who].request(method, self.url + path, **options) as response:
            return Page(response.status, await response.text(), response.headers)


@pytest_asyncio.fixture
async def console(redis_stage, tmp_path: Path) -> AsyncIterator[Console]:
    card = WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,))
    await redis_stage.transport.announce(card, ttl_s=600)
    tokens = TokenFile(tmp_path / "tokens.json")
    secrets = {role.value: tokens.create(role.value, role, "default") for role in Role}
    secrets["stranger"] = tokens.create("stranger", Role.ADMIN, "elsewhere")
    app = create_app(redis_stage.muster, tokens)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    made = Console(f"http://127.0.0.1:{port}", redis_stage, tokens, app, secrets)
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
