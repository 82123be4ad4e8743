"""Nothing of a dead worker outlives it by more than a minute: its sandboxes, and the folders of its jobs."""

from __future__ import annotations

import time
from pathlib import Path

from envelope.logs import get_logger
from repo.temporary import abandoned_folders
from sandbox.base import SandboxDriver
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.disk import unmount_disk
from sandbox.driver import DockerDriver
from sandbox.errors import SandboxError
from sandbox.homes import folders_with_sandboxes

from ..settings import WorkerSettings
from .owners import dead_owners, find_again

# With a minute for all: a second look at what belongs to other state folders, and the removal itself.
SWEEP_EVERY_S = 20.0
# Other state folders have workers of their own, who come first.
OTHERS_DEAD_FOR_S = SWEEP_EVERY_S / 2
REAPER = "muster-reaper"  # opens nothing, so that it owns nothing

log = get_logger("reaping")


async def sweep(driver: SandboxDriver, settings: WorkerSettings) -> list[str]:
    """Remove sandboxes that have expired or whose worker is dead; the ids that went."""
    return await _reap_dead(driver, settings.owners_dir, dead_for_s=0)


async def sweep_host(driver: SandboxDriver, settings: WorkerSettings) -> int:
    """All that dead workers have left on this host; how many sandboxes that were. What fails is logged, and another
    time's; it keeps nothing else from being removed."""
    count = 0
    for path in abandoned_folders():
        unmount_disk(path)
    own = settings.state_dir.absolute()
    steps = [(driver, settings.owners_dir, 0.0)]
    steps += [(each, owners, OTHERS_DEAD_FOR_S) for each, owners in _other_drivers(driver.name, own)]
    for each, owners_dir, dead_for_s in steps:
        try:
            count += len(await _reap_dead(each, owners_dir, dead_for_s=dead_for_s))
        except (SandboxError, OSError) as error:  # an engine that is down now may be back next time
            log.warning("sweep_failed", state_dir=str(owners_dir.parent), error=str(error))
        finally:
            if each is not driver:
                await each.close()
    return count


async def _reap_dead(driver: SandboxDriver, owners_dir: Path, *, dead_for_s: float) -> list[str]:
    """Of each dead owner, whatever becomes of the others; then raises the first failure."""
    gone: list[str] = []
    failures: list[Exception] = []
    try:
        gone += await driver.reap(now_s=time.time())
    except (SandboxError, OSError) as failure:
        failures.append(failure)
    for owner in dead_owners(owners_dir, dead_for_s=dead_for_s):
        try:
            gone += await driver.reap(owner=owner, now_s=time.time())
        except (SandboxError, OSError) as failure:
            find_again(owners_dir, owner)
            failures.append(failure)
    for failure in failures:
        raise failure
    return gone


async def reap_owner(driver: SandboxDriver, owner: str) -> int:
    """How many sandboxes that were; a failure is logged."""
    try:
        return len(await driver.reap(owner=owner, now_s=time.time()))
    except (SandboxError, OSError) as error:
        log.warning("sweep_failed", owner=owner, error=str(error))
        return 0


def _other_drivers(name: str, own: Path) -> list[tuple[SandboxDriver, Path]]:
    """Of other state folders, and of this one with the driver that it is not set to now."""
    found: list[tuple[SandboxDriver, Path]] = []
    for folder in folders_with_sandboxes():
        if folder.name == BubblewrapDriver.name:
            home, other = folder.parent, BubblewrapDriver.name
        else:
            home, other = folder, DockerDriver.name
        if (home, other) != (own, name):
            make = BubblewrapDriver if other == BubblewrapDriver.name else DockerDriver
            found.append((make(home, REAPER), home / "owners"))
    return found
