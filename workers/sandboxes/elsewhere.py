"""Sandboxes on this engine whose worker is on another host (or in another container), where its lock cannot be seen.

Then the store tells: a worker that no longer announces itself, and no longer holds the lease of the task that it opened
a sandbox for, is dead to everybody. Two looks must agree, so that a store that was away for a moment kills nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from envelope.lifecycle import State
from sandbox.base import Known, SandboxDriver
from sandbox.errors import SandboxError
from transport.base import TaskRecord, Transport
from transport.errors import NotFound, TransportError

from .reaping import log, reap_owner


class Elsewhere:
    def __init__(self, driver: SandboxDriver, transport: Transport, owners_dir: Path) -> None:
        self._driver = driver
        self._transport = transport
        self._owners_dir = owners_dir
        self._suspects: frozenset[str] = frozenset()

    async def sweep(self) -> int:
        """How many sandboxes went, of those who were suspected the last time, too. Failures are logged."""
        try:
            suspects = await self._forsaken(await self._driver.known())
        except (SandboxError, TransportError, OSError) as error:
            log.warning("sweep_failed", error=str(error))
            return 0
        dead, self._suspects = suspects & self._suspects, suspects
        return sum([await reap_owner(self._driver, owner) for owner in sorted(dead)])

    async def _forsaken(self, known: Iterable[Known]) -> frozenset[str]:
        announced = {card.worker for card in await self._transport.workers()}
        unseen = [
            each for each in known if each.owner not in announced and not (self._owners_dir / each.owner).exists()
        ]
        return frozenset({each.owner for each in unseen if await self._has_lost(each)})

    async def _has_lost(self, sandbox: Known) -> bool:
        """Of a task that our store knows: whoever belongs to another fleet is none of our business."""
        if not (task_id := sandbox.labels.get("task")):
            return False
        try:
            record: TaskRecord = await self._transport.record(task_id)
        except NotFound:
            return False
        # one that waits with its slot has its worker, and one that was parked has none
        return record.state not in (State.RUNNING, State.WAITING) or record.worker != sandbox.owner
