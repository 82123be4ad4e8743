"""Workers as processes, and the fleet that they serve."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskProgress, TaskRequest, TaskResult
from transport.base import Transport
from transport.embedded import Server
from transport.keyring import load_or_create
from transport.redis import connect_redis

Environment = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def environment() -> Environment:
    """`environment(folder, MUSTER_…=…)`: its state folder, and a fleet of its own on the one server."""

    def of(folder: Path, **settings: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "DOCKER_"))}
        return {**kept, "MUSTER_STATE_DIR": str(folder / "state"), "MUSTER_FLEET": fleet_of(folder), **settings}

    return of


def fleet_of(folder: Path) -> str:
    return f"f{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Fleet:
    """What the worker processes of a test serve."""

    transport: Transport

    async def submit(self, **fields: Any) -> TaskRequest:
        defaults: dict[str, Any] = {
            "task_id": new_task_id(),
            "trace_id": new_trace_id(),
            "sender": "test",
            "recipient": "build",
            "agent": "recipe",
            "auth_scope": ("bash:**",),
            "deadline_ms": 600_000,
            "created_at_ms": time.time_ns() // 1_000_000,
        }
        request = TaskRequest(**{**defaults, **fields})
        await self.transport.submit([request])
        return request

    async def submit_command(self, command: str) -> TaskRequest:
        """A task whose command has begun when this returns."""
        request = await self.submit(input=TaskInput(params={"commands": [command]}))
        await self.until(request, "tool_call")
        return request

    async def until(self, request: TaskRequest, kind: str, **fields: Any) -> None:
        """Follow the trace until the task tells of such an event."""
        async with asyncio.timeout(60):
            async for entry in self.transport.follow(request.trace_id):
                events = entry.message.events if isinstance(entry.message, TaskProgress) else ()
                ours = entry.message.task_id == request.task_id
                for event in events:
                    if ours and event.kind == kind and fields.items() <= event.model_dump().items():
                        return
        raise AssertionError(f"the trace ended without {kind}")

    async def ended(self, task_id: str) -> TaskResult:
        async with asyncio.timeout(60):
            async for result in self.transport.results([task_id]):
                return result
        raise AssertionError("no result")


@pytest.fixture
async def fleet(tmp_path: Path, redis_server: Server) -> AsyncIterator[Fleet]:
    keys = load_or_create(tmp_path / "state" / "keyring.json")
    connected = await connect_redis(redis_server.url, keyring=keys, fleet=fleet_of(tmp_path))
    yield Fleet(connected)
    await connected.close()


@pytest.fixture
async def start_worker(
    tmp_path: Path, environment: Environment, redis_server: Server, image: str
) -> AsyncIterator[Callable[..., Awaitable[asyncio.subprocess.Process]]]:
    """`await start_worker("explore", MUSTER_SLOTS="1")`: a worker process; all are killed at the end."""
    started: list[asyncio.subprocess.Process] = []

    async def start(pool: str = "build", **settings: str) -> asyncio.subprocess.Process:
        told = environment(tmp_path, MUSTER_REDIS_URL=redis_server.url, MUSTER_IMAGE=image, **settings)
        command = [sys.executable, "-m", "workers.cli.worker", pool]
        started.append(await asyncio.create_subprocess_exec(*command, env=told, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()
