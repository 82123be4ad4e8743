"""Find and remove what dead workers left: containers, then volumes, then folders. By label and expiry alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from .base import Known
from .container import EXPIRY_LABEL, OWNER_LABEL, labels_of_spec
from .docker import Engine, Labelled
from .handed import noted_labels
from .workspace import remove_workspace

# Between making its folders and making its container, a sandbox has neither label nor volume. That takes
# milliseconds; an hour forgives a machine that slept.
ORPHAN_AGE_S = 3600.0


async def reap(
    engine: Engine, state_dir: Path, *, owner: str | None, now_s: float, spare: Collection[str]
) -> list[str]:
    """The ids that went: expired ones of any owner, and with `owner` all of that owner but those in `spare`."""
    gone: set[str] = set()
    for thing in await engine.containers(OWNER_LABEL):
        if _is_due(thing, owner, now_s, spare):
            await engine.remove(thing.sandbox_id)
            gone.add(thing.sandbox_id)
    kept: set[str] = set(spare)
    for thing in await engine.volumes(OWNER_LABEL):
        if _is_due(thing, owner, now_s, spare):
            await engine.remove_volume(thing.sandbox_id)
            await asyncio.to_thread(remove_workspace, state_dir / "sandboxes" / thing.sandbox_id)
            gone.add(thing.sandbox_id)
        else:
            kept.add(thing.sandbox_id)
    gone.update(await asyncio.to_thread(_remove_orphans, state_dir / "sandboxes", kept))
    return sorted(gone)


def known_of(thing: Labelled, folder: Path) -> Known:
    """A container of ours, whose `folder` may hold a note of whose it has become."""
    noted = noted_labels(folder)
    labels = labels_of_spec(thing.labels) if noted is None else noted
    return Known(thing.sandbox_id, thing.labels[OWNER_LABEL], expiry_of(thing), labels)


def expiry_of(thing: Labelled) -> int:
    """One that does not say has expired."""
    expires_at_s = thing.labels.get(EXPIRY_LABEL, "")
    return int(expires_at_s) if expires_at_s.isdigit() else 0


def _is_due(thing: Labelled, owner: str | None, now_s: float, spare: Collection[str]) -> bool:
    if thing.sandbox_id in spare:
        return False
    return expiry_of(thing) <= now_s or (owner is not None and thing.labels.get(OWNER_LABEL) == owner)


def _remove_orphans(folder: Path, kept: Collection[str]) -> list[str]:
    """Folders that no volume uses. Their age is the machine's own affair, so its clock is read, not passed in."""
    if not folder.exists():
        return []
    oldest_s = time.time() - ORPHAN_AGE_S
    removed: list[str] = []
    for each in folder.iterdir():
        with suppress(FileNotFoundError):  # another reaper was faster
            if each.name not in kept and each.stat().st_mtime < oldest_s:
                remove_workspace(each)
                removed.append(each.name)
    return removed
