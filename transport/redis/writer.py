"""Group commit: what many tasks write while one round trip is under way goes out together in the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from envelope.messages import State

from ..base import Lease, Ledger
from ..errors import Fenced
from .cell import Cell
from .queue import Operation, operation, write

# Few enough that the server works on one batch while the worker prepares the next (a third of 100 slots), and that no
# script holds the server for more than a millisecond; many enough that round trips do not count.
MAX_OPERATIONS = 32
# Bounds one request to the server; a single message is at most 1 MiB.
MAX_BYTES = 4 * 1024 * 1024

Waiting = tuple[Operation, "asyncio.Future[list[int]]"]


class Writer:
    """Writes under leases, in the order in which they were asked for; each caller awaits its own outcome."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._waiting: deque[Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def emit(self, lease: Lease, message: bytes, charge_microusd: int) -> Ledger:
        _, spent, cap = await self._write("emit", lease, message, charge_microusd)
        return Ledger(spent, cap if cap >= 0 else None)

    async def checkpoint(self, lease: Lease, blob: str) -> None:
        await self._write("checkpoint", lease, blob)

    async def finish(self, lease: Lease, status: State, message: bytes) -> None:
        await self._write("finish", lease, message, status)

    async def give_back(self, lease: Lease) -> None:
        await self._write("give_back", lease)

    async def close(self) -> None:
        if self._sender:
            await self._sender

    async def _write(self, kind: str, lease: Lease, data: bytes | str = b"", more: int | str = 0) -> list[int]:
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((operation(kind, lease, data, more), future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        outcome = await future
        if not outcome[0]:
            raise Fenced(f"the lease on {lease.task_id} (attempt {lease.attempt}) is no longer {lease.worker}'s")
        return outcome

    async def _send_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._send(batch)
        finally:
            self._sender = None

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        size_bytes = 0
        while self._waiting and len(batch) < MAX_OPERATIONS and size_bytes < MAX_BYTES:
            batch.append(self._waiting.popleft())
            size_bytes += len(batch[-1][0][4])
        return batch

    async def _send(self, batch: Sequence[Waiting]) -> None:
        try:
            outcomes = await write(self._cell, (operation for operation, _ in batch))
        except Exception as error:  # whatever it is, those who wait must hear of it, and the next batch must go out
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
