"""The repositories that goals and batches merge in: kept for the next one, and no more of them than is allowed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from envelope.logs import get_logger
from repo.cache import collect_repositories
from repo.keeping import IN_USE_S
from repo.lock import stamp_use, turn_every
from repo.mirror import Mirror

from .settings import Settings

COLLECT_EVERY_S = 3600.0  # as workers do: a limit of gigabytes is not passed in minutes
LOOK_EVERY_S = IN_USE_S / 4  # what a batch works on for days is never one that was not used for so long

log = get_logger("mirrors")


@dataclass(frozen=True, slots=True)
class MirrorsAtWork:
    """Of one process: what each of its drivers may come back to until it ends."""

    _by_driver: dict[str, list[Mirror]] = field(default_factory=dict[str, list[Mirror]])

    def add(self, task_id: str, mirror: Mirror) -> None:
        self._by_driver.setdefault(task_id, []).append(mirror)

    def release(self, task_id: str) -> None:
        self._by_driver.pop(task_id, None)

    def stamp(self) -> None:
        for mirror in (mirror for mirrors in self._by_driver.values() for mirror in mirrors):
            stamp_use(mirror.git_dir.with_suffix(".lock"))


async def keep_mirrors(at_work: MirrorsAtWork, settings: Settings) -> None:
    """Until cancelled."""
    while True:
        at_work.stamp()
        await collect_mirrors_if_due(settings)
        await asyncio.sleep(LOOK_EVERY_S)


async def collect_mirrors_if_due(settings: Settings) -> None:
    """Once an hour for all orchestrators of a state folder."""
    with turn_every(COLLECT_EVERY_S, settings.state_dir / "locks" / "collect-mirrors.lock") as is_mine:
        if not is_mine:
            return
        gone = await collect_repositories(settings.cache_dir, settings.repositories_allowance, now_s=time.time())
        if gone:
            log.info("mirrors_collected", count=len(gone), bytes=sum(each.size_bytes for each in gone))
