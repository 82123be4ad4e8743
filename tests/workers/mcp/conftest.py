"""A server of the official library over HTTP, in a process of its own on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workers.mcp.settings import McpServer

PROGRAM = Path(__file__).with_name("http_server.py")


@dataclass
class Process:
    port: int
    ended: Callable[[], Awaitable[int]]

    def server(self, path: str = "mcp", **settings: Any) -> McpServer:
        told = {"private_addresses": [f"127.0.0.1:{self.port}"], "timeout_s": 20, **settings}
        return McpServer.model_validate({"url": f"http://127.0.0.1:{self.port}/{path}", **told})


@pytest.fixture
async def start_server() -> AsyncIterator[Callable[..., Awaitable[Process]]]:
    started: list[asyncio.subprocess.Process] = []

    async def start(*arguments: str) -> Process:
        process = await asyncio.create_subprocess_exec(sys.executable, PROGRAM, *arguments, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        return Process(int(await process.stdout.readline()), process.wait)

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()
