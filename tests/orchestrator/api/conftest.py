"""The API over real HTTP, on a fleet whose workers are played by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest_asyncio
import uvicorn
from fastapi import FastAPI

from envelope.agents import AgentCard, WorkerCard
from orchestrator.api.app import create_app
from orchestrator.api.tokens import Role, Tokens

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))


@dataclass
class Api:
    """One server, and a token for each role of the tenant `default`; `secrets` by name."""

    url: str
    stage: Any
    tokens: Tokens
    secrets: dict[str, str]
    session: aiohttp.ClientSession
    app: FastAPI

    async def call(self, method: str, path: str, *, who: str = "admin", **options: Any) -> tuple[int, Any]:
        """Status and body: JSON as values, all else as text."""
        headers = {**self.auth(who), **options.pop("headers", {})}
        async with self.session.request(method, self.url + path, headers=headers, **options) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type.endswith("json") else text

    def auth(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[who]}"} if who in self.secrets else {}

    async def submit(self, *, who: str = "submitter", **fields: Any) -> str:
        task = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000, **fields}
        status, told = await self.call("POST", "/v1/tasks", who=who, json=task)
        assert status in (200, 201), told
        return told["task_id"]

    async def work(self, **fields: Any) -> Any:
        """A task that was submitted so, and begun; see `Stage.work`."""
        task_id = await self.submit(**fields)
        work = await self.stage.claimed()
        assert work.task_id == task_id
        return work


@pytest_asyncio.fixture
async def api(redis_stage) -> AsyncIterator[Api]:
    card = WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,))
    await redis_stage.transport.announce(card, ttl_s=600)
    tokens = Tokens(redis_stage.transport.registry)
    secrets = {role.value: await tokens.create(role.value, role, "default") for role in Role}
    secrets["stranger"] = await tokens.create("stranger", Role.ADMIN, "elsewhere")
    app = create_app(redis_stage.muster)
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        yield Api(f"http://127.0.0.1:{port}", redis_stage, tokens, secrets, session, app)
    server.should_exit = True
    server.force_exit = True
    await serving
