"""The official client library at a real server, on a fleet whose workers are played by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest_asyncio
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from envelope.agents import AgentCard, WorkerCard
from orchestrator.api.app import create_app
from orchestrator.api.rates import Rates
from orchestrator.api.tokens import Role, Tokens
from orchestrator.submit import DRIVERS

AGENTS = (
    AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**")),
    AgentCard(name="explore", mode="subagent", pool="build", auth_scope=("read:**",), description="Reads \u202eonly."),
    AgentCard(name="title", mode="primary", pool="build", hidden=True),
)


@dataclass
class Caller:
    """One client of the official library."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a call that goes well; as a value and as text it is the same."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        return result.content[0].text


@dataclass
class Server:
    """`secrets` by name: a token for each role of the tenant `default`, and a stranger's."""

    url: str
    stage: Any
    secrets: dict[str, str]
    tokens: Tokens

    @asynccontextmanager
    async def caller(self, who: str = "admin", mode: str = "auto") -> AsyncIterator[Caller]:
        headers = {"Authorization": f"Bearer {self.secrets[who]}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=90) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield Caller(client)


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@pytest_asyncio.fixture
async def serve(redis_stage, tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def started(rates: Rates | None = None) -> AsyncIterator[Server]:
        for pool in ("build", DRIVERS):
            card = WorkerCard(worker=pool, pool=pool, slots=1, agents=AGENTS if pool == "build" else ())
            await redis_stage.transport.announce(card, ttl_s=600)
        tokens = Tokens(redis_stage.transport.registry)
        secrets = {role.value: await tokens.create(role.value, role, "default") for role in Role}
        secrets["stranger"] = await tokens.create("stranger", Role.ADMIN, "elsewhere")
        secrets["looker"] = await tokens.create("looker", Role.SUBMITTER, "default", read_only=True)
        config = uvicorn.Config(create_app(redis_stage.muster, rates), port=0, log_config=None, lifespan="on")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.wait({serving}, timeout=0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield Server(f"http://127.0.0.1:{port}", redis_stage, secrets, tokens)
        finally:
            server.should_exit = True
            await serving

    return started


@pytest_asyncio.fixture
async def server(serve: Serve) -> AsyncIterator[Server]:
    async with serve() as started:
        yield started
