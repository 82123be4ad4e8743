"""Real fleets for tests: each test has one of its own, in memory or on the session's servers: the embedded one, a
cluster of three masters (with four cells), a pair under Sentinel."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lab.programs import server_program
from lab.schedule import SOAK

from envelope.events import TextDelta
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Output, TaskProgress, TaskRequest, TaskResult
from transport import approvals
from transport.base import Claim, Transport
from transport.embedded import Server, embedded_redis
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport
from transport.redis import cells, connect_redis

KEYRING = fresh()
APPROVALS = approvals.fresh()
_fleets = itertools.count()


class Fleet:
    """A transport and the values that tests send through it."""

    def __init__(self, transport: Transport, *, name: str = "", url: str = "") -> None:
        self.transport = transport
        self.name = name
        self.url = url  # empty for a fleet in memory
        self._seqs = itertools.count()

    def request(self, **fields: Any) -> TaskRequest:
        key = fields.get("idempotency_key")
        defaults = {
            "task_id": new_task_id(),
            # what is submitted under one key is found beside each other, in whatever cell
            "trace_id": new_trace_id(key=f"{fields.get('tenant', 'default')}:{key}" if key else ""),
            "sender": "test",
            "recipient": "explore",
            "agent": "explore",
            "deadline_ms": 60_000,
            "created_at_ms": time.time_ns() // 1_000_000,
        }
        return TaskRequest(**{**defaults, **fields})

    def child(self, parent: TaskRequest, **fields: Any) -> TaskRequest:
        return self.request(**{"parent_task_id": parent.task_id, "trace_id": parent.trace_id, **fields})

    async def submit(self, **fields: Any) -> TaskRequest:
        request = self.request(**fields)
        await self.transport.submit([request])
        return request

    async def claim_one(self, worker: str = "w1", *, pool: str = "explore", wait_s: float = 5.0) -> Claim:
        (claim,) = await self.transport.claim(pool, worker, slots=1, wait_s=wait_s)
        return claim

    async def begun(self, *, deadline_ms: int, worker: str = "w1") -> Claim:
        """Of a task that was claimed before its deadline: where a busy machine is too slow, one with a later one."""
        while True:
            await self.submit(deadline_ms=deadline_ms)
            for claim in await self.transport.claim("explore", worker, slots=1, wait_s=0):
                return claim
            deadline_ms *= 2

    def progress(self, claim: Claim, text: str = "hello") -> TaskProgress:
        return TaskProgress(
            trace_id=claim.lease.trace_id,
            task_id=claim.lease.task_id,
            attempt=claim.lease.attempt,
            seq=next(self._seqs),
            at_ms=0,
            status=State.RUNNING,
            events=(TextDelta(text=text),),
        )

    def result(self, claim: Claim, text: str = "done", status: State = State.COMPLETED) -> TaskResult:
        lease = claim.lease
        return TaskResult(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            status=status,
            output=Output(text=text),
        )

    async def finish(self, claim: Claim, text: str = "done") -> TaskResult:
        result = self.result(claim, text)
        await self.transport.finish(claim.lease, result)
        return result

    async def ended(self, task_id: str) -> TaskResult:
        """Wait for a task's result."""
        return await anext(self.transport.results([task_id]))


MakeFleet = Callable[..., Awaitable[Fleet]]


@pytest.fixture(scope="session")
def state_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        yield Path(folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_server(state_dir: Path) -> AsyncIterator[Server]:
    async with embedded_redis(state_dir) as server:
        yield server


@pytest.fixture
def make_memory_fleet() -> MakeFleet:
    async def make(limits: Limits | None = None) -> Fleet:
        return Fleet(MemoryTransport(limits=limits, keyring=KEYRING, approval_keys=APPROVALS))

    return make


@pytest.fixture(scope="session")
def cluster_url(start_own_cluster: Callable[..., Any]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in start_own_cluster())


@pytest.fixture(scope="session")
def sentinel_url(start_own_pair: Callable[..., Any]) -> str:
    *_, sentinel = start_own_pair()
    return f"redis+sentinel://127.0.0.1:{sentinel.port}/fleet/0"


@asynccontextmanager
async def fleets_at(url: str, cells: int = 1) -> AsyncIterator[MakeFleet]:
    async with AsyncExitStack() as stack:

        async def make(limits: Limits | None = None, name: str = "") -> Fleet:
            """A new fleet, or one more connection to the one named."""
            name = name or f"t{next(_fleets)}"
            transport = await connect_redis(
                url, keyring=KEYRING, approval_keys=APPROVALS, fleet=name, limits=limits, cells=cells
            )
            stack.push_async_callback(transport.close)
            return Fleet(transport, name=name, url=url)

        yield make


@pytest_asyncio.fixture
async def make_redis_fleet(redis_server: Server) -> AsyncIterator[MakeFleet]:
    async with fleets_at(redis_server.url) as make:
        yield make


@pytest_asyncio.fixture
async def make_cluster_fleet(
    cluster_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakeFleet]:
    """Of four cells, unless a module says with `CELLS = 1` that its promises are about one.

    No node is away in these tests, and a busy machine does not look like it.
    """
    monkeypatch.setattr(cells, "PATIENCE_S", 5.0)
    async with fleets_at(cluster_url, cells=getattr(request.module, "CELLS", 4)) as make:
        yield make


@pytest_asyncio.fixture
async def make_sentinel_fleet(sentinel_url: str) -> AsyncIterator[MakeFleet]:
    async with fleets_at(sentinel_url) as make:
        yield make


@pytest.fixture(scope="session")
def valkey_url(start_redis: Callable[..., Any]) -> str:
    return f"redis://127.0.0.1:{start_redis('--appendonly', 'yes', program=server_program('valkey-9.1')).port}/0"


@pytest_asyncio.fixture
async def make_valkey_fleet(valkey_url: str) -> AsyncIterator[MakeFleet]:
    async with fleets_at(valkey_url) as make:
        yield make


KINDS = ("redis", "cluster", "sentinel", *(("valkey",) if SOAK else ()))
ON_SERVERS = [pytest.param(kind, marks=pytest.mark.redis) for kind in KINDS]


@pytest.fixture(params=["memory", *ON_SERVERS])
def make_fleet(request: pytest.FixtureRequest) -> MakeFleet:
    return request.getfixturevalue(f"make_{request.param}_fleet")


@pytest_asyncio.fixture
async def fleet(make_fleet: MakeFleet) -> Fleet:
    return await make_fleet()


@pytest_asyncio.fixture
async def hasty_fleet(make_fleet: MakeFleet) -> Fleet:
    """Leases of 300 ms: long enough for a busy machine to renew, short enough to wait for."""
    return await make_fleet(Limits(lease_ms=300))


@pytest_asyncio.fixture
async def redis_fleet(make_redis_fleet: MakeFleet) -> Fleet:
    return await make_redis_fleet()
