"""The `Transport` on Redis, put together from its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from envelope.agents import WorkerCard
from envelope.codec import encode
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .. import admission
from ..base import Blobs, Claim, Entry, Handle, Lease, LeaseKeeper, Ledger, PoolStats, TaskRecord
from ..blobs import TieredBlobs
from ..keys import CellKeys
from ..limits import Limits
from . import events, queue, records
from .blobs import RedisBlobs
from .cell import Cell
from .client import Client
from .leases import RedisKeeper
from .writer import Writer


async def connect_redis(
    url: str, *, keyring: Keyring, fleet: str = "main", limits: Limits | None = None, large_blobs: Blobs | None = None
) -> RedisTransport:
    """A transport on a server that was checked: `Unreachable` or `Misconfigured` say what to do about it.

    Blobs go to Redis; large ones elsewhere when there is such a place.
    """
    client = Client(url)
    try:
        await client.check()
    except BaseException:
        await client.close()
        raise
    cell = Cell(client, CellKeys(fleet), limits or Limits())
    blobs = RedisBlobs(client, fleet, cell.limits.retention_ms)
    return RedisTransport(cell, keyring, TieredBlobs(blobs, large_blobs) if large_blobs else blobs)


class RedisTransport:
    def __init__(self, cell: Cell, keyring: Keyring, blobs: Blobs) -> None:
        self.blobs = blobs
        self.keyring = keyring
        self.limits = cell.limits
        self._cell = cell
        self._writer = Writer(cell)

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest]) -> list[Handle]:
        await admission.check_scopes(requests, self.request)
        return await queue.submit(self._cell, self.keyring, requests)

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        return await queue.cancel(self._cell, task_id, by=by, reason=reason)

    def follow(self, trace_id: str, *, after: str = "0") -> AsyncIterator[Entry]:
        return events.follow(self._cell, trace_id, after)

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        return events.results(self._cell, task_ids)

    async def request(self, task_id: str) -> TaskRequest:
        return await records.request(self._cell, self.keyring, task_id)

    async def result(self, task_id: str) -> TaskResult | None:
        return await records.result(self._cell, task_id)

    async def record(self, task_id: str) -> TaskRecord:
        return await records.record(self._cell, task_id)

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        return await records.tasks(self._cell, trace_id, limit)

    # -- for those who do it

    async def claim(self, pool: str, worker: str, *, slots: int, wait_s: float) -> list[Claim]:
        return await queue.claim(self._cell, pool, worker, slots=slots, wait_s=wait_s)

    def keeper(self) -> LeaseKeeper:
        return RedisKeeper(self._cell)

    async def emit(self, lease: Lease, progress: TaskProgress, *, charge_microusd: int = 0) -> Ledger:
        return await self._writer.emit(lease, encode(progress), charge_microusd)

    async def checkpoint(self, lease: Lease, blob: str) -> None:
        await self._writer.checkpoint(lease, blob)

    async def finish(self, lease: Lease, result: TaskResult) -> None:
        await self._writer.finish(lease, result.status, encode(result))

    async def give_back(self, lease: Lease) -> None:
        await self._writer.give_back(lease)

    # -- for whoever is alive

    async def reap(self) -> int:
        return await queue.reap(self._cell)

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        await records.announce(self._cell, card, ttl_s=ttl_s)

    async def workers(self) -> list[WorkerCard]:
        return await records.workers(self._cell)

    async def stats(self, pools: Sequence[str]) -> list[PoolStats]:
        return await records.stats(self._cell, pools)

    async def counters(self) -> dict[str, int]:
        return await records.counters(self._cell)

    async def now_ms(self) -> int:
        return await records.now_ms(self._cell)

    async def close(self) -> None:
        await self._writer.close()
        await self._cell.client.close()
