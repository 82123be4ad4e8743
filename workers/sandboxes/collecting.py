"""What a machine keeps so that the next task starts sooner, and no more of it than its operator allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from envelope.logs import get_logger
from repo.cache import collect_repositories, kept_repositories
from repo.keeping import GIB, Allowance, Kept
from repo.lock import turn_every
from sandbox.base import SandboxDriver
from sandbox.errors import SandboxError

from ..settings import WorkerSettings

EVERY_S = 3600.0  # where a disk is short before that, whoever makes something new makes room (`repo.cache`)

log = get_logger("collecting")


@dataclass(frozen=True, slots=True)
class Store:
    """For people: what is kept (or went), of which kind, and what is allowed."""

    kind: str
    things: Sequence[Kept]
    allowance: Allowance

    def __str__(self) -> str:
        size_gib = sum(each.size_bytes for each in self.things) / GIB
        allowed = f"{self.allowance.max_bytes / GIB:g} GiB, {self.allowance.max_age_s / 86400:g} days"
        return f"{self.kind}: {len(self.things)}, {size_gib:.1f} GiB (at most {allowed})"


async def kept(driver: SandboxDriver, settings: WorkerSettings) -> list[Store]:
    repositories = await kept_repositories(settings.cache_dir)
    return [
        Store("setup images", await driver.setups(), settings.setups_allowance),
        Store("mirrors, checkouts and bundles", repositories, settings.repositories_allowance),
    ]


async def collect(driver: SandboxDriver, settings: WorkerSettings) -> list[Kept]:
    """Remove what is too much; what went."""
    now_s = time.time()
    return [
        *await driver.collect(settings.setups_allowance, now_s=now_s),
        *await collect_repositories(settings.cache_dir, settings.repositories_allowance, now_s=now_s),
    ]


async def collect_if_due(driver: SandboxDriver, settings: WorkerSettings) -> None:
    """Once an hour for all workers of a state folder: whoever looks first does it. Failures are logged."""
    with turn_every(EVERY_S, settings.state_dir / "locks" / "collect.lock") as is_mine:
        if not is_mine:
            return
        try:
            if gone := await collect(driver, settings):
                log.info("cache_collected", count=len(gone), bytes=sum(each.size_bytes for each in gone))
        except (SandboxError, OSError) as error:  # another time
            log.warning("collect_failed", error=str(error))
