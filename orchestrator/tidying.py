"""The repositories that an orchestrator's machine has unpacked for goals and batches, and no longer needs."""

from __future__ import annotations

import asyncio
import time

from envelope.logs import get_logger
from envelope.messages import MAX_DEADLINE_MS
from repo.cache import collect_repositories
from repo.keeping import Allowance, Kept
from repo.lock import stamp_use, try_lock

from .settings import Settings

EVERY_S = 3600.0
# By age alone: a batch may wait for its shards for hours, and then merges in what it unpacked at its start.
ANY_SIZE = 2**62

log = get_logger("tidying")


async def keep_tidy(settings: Settings) -> None:
    """Once an hour for all orchestrators of a state folder, until cancelled."""
    while True:
        await tidy_if_due(settings)
        await asyncio.sleep(EVERY_S)


async def tidy_if_due(settings: Settings) -> list[Kept]:
    """Remove what nobody used for the time of retention, and no live task can need; what went."""
    stamp = settings.state_dir / "locks" / "tidy.lock"
    is_new = not stamp.exists()
    with try_lock(stamp) as is_mine:
        if not is_mine or not (is_new or time.time() - stamp.stat().st_mtime > EVERY_S):
            return []
        stamp_use(stamp)
        allowance = Allowance(max(settings.retention_s, 2 * MAX_DEADLINE_MS / 1000), ANY_SIZE)
        gone = await collect_repositories(settings.cache_dir, allowance, now_s=time.time())
        if gone:
            log.info("tidied", count=len(gone), bytes=sum(each.size_bytes for each in gone))
        return gone
