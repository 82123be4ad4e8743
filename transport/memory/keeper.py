"""Lease renewal of the transport in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from envelope.lifecycle import State

from ..base import Lease, Renewal
from .fleet import Fleet
from .reaping import reap


class MemoryKeeper:
    """Renews in the keeper's thread, whatever the event loop does; reaps on the loop, where all moves happen."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._loop = asyncio.get_running_loop()
        self._bell: threading.Event | None = None

    def wait(self, worker: str, timeout_s: float) -> None:
        self._bell = self._fleet.bell_of(worker)
        if self._bell.wait(timeout_s):
            self._bell.clear()

    def renew(self, leases: Sequence[Lease]) -> Renewal:
        lost: set[str] = set()
        cancelled: dict[str, str] = {}
        expired: set[str] = set()
        now, ends_at_ms = self._fleet.now(), self._fleet.lease_ends_at_ms()
        for lease in leases:
            task = self._fleet.tasks.get(lease.task_id)
            if task is None or task.state is not State.RUNNING or task.lease != lease:
                lost.add(lease.task_id)
                continue
            task.lease_ends_at_ms = ends_at_ms
            if task.cancel_reason is not None:
                cancelled[task.id] = task.cancel_reason
            elif now >= task.expires_at_ms:
                expired.add(task.id)
        pools = {lease.pool for lease in leases if lease.task_id not in lost}
        self._loop.call_soon_threadsafe(reap, self._fleet, pools)
        return Renewal(frozenset(lost), cancelled, frozenset(expired))

    def interrupt(self) -> None:
        if self._bell:
            self._bell.set()

    def close(self) -> None:
        return None
