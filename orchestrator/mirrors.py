"""The repositories that goals and batches merge in: kept for the next one, and no more of them than is allowed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from envelope.logs import get_logger
from repo.cache import Use, collect_repositories
from repo.lock import turn_every
from transport.base import Lease

from .settings import Settings

COLLECT_EVERY_S = 3600.0  # as workers do

log = get_logger("mirrors")


@dataclass(frozen=True, slots=True)
class MirrorsAtWork:
    """Of one process: what each of its drivers may come back to until it ends, perhaps days later. By attempt: one
    that has lost its task may still be ending when the next has begun."""

    _by_driver: dict[Lease, Use] = field(default_factory=dict[Lease, Use])

    def of(self, lease: Lease, tenant: str) -> Use:
        return self._by_driver.setdefault(lease, Use(tenant))

    def release(self, lease: Lease) -> None:
        if use := self._by_driver.pop(lease, None):
            use.close()


async def keep_mirrors(settings: Settings) -> None:
    """Until cancelled."""
    while True:
        await collect_mirrors_if_due(settings)
        await asyncio.sleep(COLLECT_EVERY_S / 2)


async def collect_mirrors_if_due(settings: Settings) -> None:
    """Once an hour for all orchestrators of a state folder."""
    with turn_every(COLLECT_EVERY_S, settings.state_dir / "locks" / "collect-mirrors.lock") as is_mine:
        if not is_mine:
            return
        gone = await collect_repositories(settings.cache_dir, settings.repositories_allowance, now_s=time.time())
        if gone:
            log.info("mirrors_collected", count=len(gone), bytes=sum(each.size_bytes for each in gone))
