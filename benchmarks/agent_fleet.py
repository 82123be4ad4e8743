"""A fleet for the measurements of agents: a fresh Redis, a model server and workers, each a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envelope.budget import Budget
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import ContextRef, TaskInput, TaskRequest, TaskResult, Workspace
from repo.bundle import bundle
from transport import keyring
from transport.base import Transport
from transport.embedded import embedded_redis
from transport.redis import connect_redis

from .agent_scripts import TEXT, Json
from .queue import Process, Row

MODEL = "openai/scripted"
MICROUSD_PER_MILLION = {"input": 3_000_000, "output": 15_000_000}  # with a price, money is set aside for every call
CAP_MICROUSD = 100_000_000


@dataclass
class AgentFleet:
    """`text` is a blob that holds `TEXT`, for `read` to read in the worker's own process."""

    transport: Transport
    text: str
    environment: dict[str, str]
    stack: AsyncExitStack
    redis_pid: int

    async def worker(self, pool: str, *, slots: int = 4, library: str = "") -> Worker:
        process = await Process.start(
            "benchmarks.agent_worker", pool, *([library] if library else []),
            environment=self.environment | {"MUSTER_SLOTS": str(slots)},
        )  # fmt: skip
        self.stack.push_async_callback(process.end)
        return Worker(process)

    async def orchestrator(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orchestrator.service", env=self.environment, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

        async def end() -> None:
            process.kill()
            await process.wait()

        self.stack.push_async_callback(end)

    async def model(self, script: Json) -> None:
        """Workers that are started from here on ask a server with this script."""
        self.environment["MUSTER_MODEL_BASE_URL"] = await self.stack.enter_async_context(model_server(script)) + "/v1"

    def request(self, prompt: str, **fields: Any) -> TaskRequest:
        defaults: dict[str, Any] = {
            "task_id": new_task_id(),
            "trace_id": new_trace_id(),
            "sender": "bench",
            "recipient": "build",
            "agent": "build",
            "input": TaskInput(prompt=prompt),
            "context_refs": (ContextRef(type="blob", id=self.text),),
            "auth_scope": ("read:**", "list:**", "glob:**", "grep:**", "bash:**", "edit:**", "task:**"),
            "budget": Budget(max_cost_microusd=CAP_MICROUSD),
            "deadline_ms": 600_000,
            "created_at_ms": time.time_ns() // 1_000_000,
        }
        return TaskRequest(**{**defaults, **fields})

    async def run(self, requests: Sequence[TaskRequest]) -> list[TaskResult]:
        """To their ends, which must be good ones."""
        await self.transport.submit(requests)
        results = [one async for one in self.transport.results([request.task_id for request in requests])]
        for result in results:
            assert not result.errors, result.errors
        return results


@dataclass(frozen=True)
class Worker:
    process: Process

    async def used(self) -> Row:
        self.process.go()
        return await self.process.line()

    async def spends(self, work: Callable[[], Awaitable[object]]) -> Row:
        """What it takes in time, and of this process's and its programs' CPU."""
        before, began_s = await self.used(), time.perf_counter()
        await work()
        wall_s, after = time.perf_counter() - began_s, await self.used()
        return {name: after[name] - before[name] for name in before} | {"wall_s": wall_s, "peak_mib": after["peak_mib"]}


@asynccontextmanager
async def agent_fleet(script: Callable[[str], Json]) -> AsyncGenerator[AgentFleet]:
    """`script` is told the blob's name."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-")))
        server = await stack.enter_async_context(embedded_redis(folder))
        keys = folder / "keyring.json"
        transport = await connect_redis(server.url, keyring=keyring.load_or_create(keys), fleet="bench")
        stack.push_async_callback(transport.close)
        environment = os.environ | {
            "MUSTER_REDIS_URL": server.url, "MUSTER_FLEET": "bench", "MUSTER_KEYRING": str(keys),
            "MUSTER_STATE_DIR": str(folder / "state"), "MUSTER_CONFIG": str(folder / "none.toml"),
            "MUSTER_MODEL": MODEL, "MUSTER_MODEL_API_KEY": "sk-nobody-0123456789",
            "MUSTER_PRICES": json.dumps({MODEL: MICROUSD_PER_MILLION}),
            "MUSTER_TITLES": "false",  # a call beside the session, which would be counted as its turns'
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            # as an installed Muster has it: nobody compiles its sources at each start
            "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }  # fmt: skip
        fleet = AgentFleet(transport, await transport.blobs.put(TEXT.encode()), environment, stack, server.pid)
        await fleet.model(script(fleet.text))
        yield fleet


@asynccontextmanager
async def model_server(script: Json) -> AsyncGenerator[str]:
    """The scripted server in a process of its own; its URL."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        file = Path(folder) / "script.json"
        file.write_text(json.dumps(script))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "workers.llm.scripted_server", "--script", str(file), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout
            yield json.loads(await process.stdout.readline())["url"]
        finally:
            process.kill()
            await process.wait()


async def repository(transport: Transport) -> Workspace:
    """A small project under git, as it travels."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        root, file = Path(folder) / "project", Path(folder) / "project.bundle"
        (root / "src").mkdir(parents=True)
        for n in range(40):
            (root / "src" / f"part_{n}.py").write_text(TEXT)
        head = await commit_all(root)
        await bundle(root, head, file)
        return Workspace(bundle=await transport.blobs.put(file.read_bytes()), base=head)


async def commit_all(root: Path) -> str:
    """A folder's files as a repository's first commit."""
    await _git(root, "init", "--quiet")
    await _git(root, "add", "--all")
    await _git(root, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "-m", "all")
    return (await _git(root, "rev-parse", "HEAD")).strip()


async def _git(root: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec("git", "-C", str(root), *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, arguments
    return output.decode()
