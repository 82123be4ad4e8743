"""One submission, to the cells in which its traces live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from envelope.messages import TaskRequest
from envelope.signature import Keyring

from ..base import Handle, Lease
from . import queue
from .cell import Cell
from .cells import Cells
from .client import Client
from .pressure import Pressure
from .writer import Writer


class Submitting:
    def __init__(self, cells: Cells, keyring: Keyring, writer_of: Callable[[Lease], Writer]) -> None:
        self._cells = cells
        self._keyring = keyring
        self._writer_of = writer_of
        by_client: dict[Client, list[Cell]] = {}
        for cell in cells.all:
            by_client.setdefault(cell.client, []).append(cell)
        self._pressure = {client: Pressure(share, cells.limits) for client, share in by_client.items()}

    async def submit(self, requests: Sequence[TaskRequest], under: Lease | None) -> list[Handle]:
        """Handles in the order of the requests. All or none of each cell's share, one cell after the other."""
        await self._cells.check_homes(requests)
        shares: dict[Cell, list[int]] = {}
        for at, request in enumerate(requests):
            shares.setdefault(self._cells.of_trace(request.trace_id), []).append(at)
        rows = {cell: queue.rows([requests[at] for at in share], self._keyring) for cell, share in shares.items()}
        for cell, share in rows.items():
            await self._pressure[cell.client].check(len(share), sum(len(row["envelope"]) for row in share))
        handles: dict[int, Handle] = {}
        for cell, share in shares.items():
            mine = await self._lease_in(cell, under)
            accepted = await queue.submit(cell, [requests[at] for at in share], rows[cell], mine)
            handles.update(zip(share, accepted, strict=True))
        for handle in handles.values():
            self._cells.learn(handle.task_id, handle.trace_id)
        return [handles[at] for at in range(len(requests))]

    async def require_room(self, cell: Cell, size_bytes: int) -> None:
        """`QueueFull` where words to what is accepted already find no more room than a submission would."""
        await self._pressure[cell.client].check(0, size_bytes)

    async def relieve(self) -> None:
        """Make room on servers that are short of memory."""
        await asyncio.gather(*(pressure.relieve() for pressure in self._pressure.values()))

    async def memory_used(self) -> float:
        return max(await asyncio.gather(*(pressure.used() for pressure in self._pressure.values())))

    async def _lease_in(self, cell: Cell, under: Lease | None) -> Lease | None:
        """Of a lease in another cell a script cannot judge: it is looked at first (`Fenced`), not in the same step."""
        if under is None or self._cells.of_trace(under.trace_id) is cell:
            return under
        await self._writer_of(under).inbox(under)
        return None
