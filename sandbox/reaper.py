"""Find and remove what dead workers left: containers, then volumes, then folders. By label, card and expiry alone.

Nothing waits for what cannot be removed: each thing is tried, then the first failure is raised, and whoever comes next
tries again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from .base import Known
from .card import Card, card_of
from .container import EXPIRY_LABEL, OWNER_LABEL, labels_of_spec, sandbox_of
from .docker import Engine, Labelled
from .handed import noted_labels
from .workspace import remove_workspace

# Between making its folder and writing its card a sandbox is nobody's, for less than a millisecond; the rest is a busy
# machine. Nothing is mounted there yet, and one that stood still for longer fails to open.
ORPHAN_AGE_S = 10.0
AT_ONCE = 4  # an engine that removes more at a time is no faster, and answers nobody else meanwhile

Remove = Callable[[str], Awaitable[None]]


async def reap(
    engine: Engine, state_dir: Path, *, owners: frozenset[str], now_s: float, spare: Collection[str]
) -> list[str]:
    """The ids that went: of `owners` all but those in `spare`, and the expired ones of anybody."""
    sandboxes = state_dir / "sandboxes"

    async def remove_folder(name: str) -> None:
        await asyncio.to_thread(remove_workspace, sandboxes / name)

    gone = Gone()
    containers = [thing.name for thing in await engine.containers(OWNER_LABEL) if _is_due(thing, owners, now_s)]
    await gone.remove_all((name for name in containers if sandbox_of(name) not in spare), engine.remove)
    volumes = await engine.volumes(OWNER_LABEL)
    busy = {*spare, *map(sandbox_of, gone.failed)}
    due = {thing.name for thing in volumes if _is_due(thing, owners, now_s) and sandbox_of(thing.name) not in busy}
    await gone.remove_all(sorted(due), engine.remove_volume)
    # A container that could not be removed may still have its files mounted.
    busy = {*spare, *map(sandbox_of, gone.failed), *(sandbox_of(each.name) for each in volumes if each.name not in due)}
    left = [name for name in due_folders(sandboxes, owners, now_s) if name not in busy]
    await gone.remove_all({*map(sandbox_of, due), *left} - busy, remove_folder)
    return gone.told()


class Gone:
    """What was removed, and what could not be."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.failed: dict[str, Exception] = {}

    async def remove_all(self, names: Iterable[str], remove: Remove) -> None:
        """A few at a time; what fails is kept for `told`, and stops none of the others."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def remove_one(name: str) -> None:
            async with turn:
                try:
                    await remove(name)
                except Exception as failure:  # whatever it is, the others are not to wait for it
                    self.failed[name] = failure
                else:
                    self.ids.add(name)

        await asyncio.gather(*map(remove_one, names))

    def told(self) -> list[str]:
        """The ids that went whole; raises the first failure instead."""
        for failure in self.failed.values():
            raise failure
        return sorted({*map(sandbox_of, self.ids)})


def due_folders(sandboxes: Path, owners: frozenset[str], now_s: float) -> list[str]:
    """By their cards; of one without a card its age decides, which is the machine's own affair."""
    found: list[str] = []
    for folder in sorted(sandboxes.iterdir()) if sandboxes.is_dir() else []:
        card = card_of(folder)
        with suppress(FileNotFoundError):  # another reaper was faster
            is_orphan = card is None and folder.stat().st_mtime < time.time() - ORPHAN_AGE_S
            if is_orphan or (card is not None and card.is_due(owners, now_s)):
                found.append(folder.name)
    return found


def known_of(things: Iterable[Labelled], sandboxes: Path) -> list[Known]:
    """Each sandbox once, however much of it is left: a container, a volume, or a folder alone."""
    folders = sorted(sandboxes.iterdir()) if sandboxes.is_dir() else []
    cards = {folder.name: card for folder in folders if (card := card_of(folder)) is not None}
    cards |= {
        sandbox_of(thing.name): Card(thing.labels[OWNER_LABEL], expiry_of(thing), labels_of_spec(thing.labels))
        for thing in things
    }
    return [_known(name, card, sandboxes / name) for name, card in sorted(cards.items())]


def expiry_of(thing: Labelled) -> int:
    """One that does not say has expired."""
    expires_at_s = thing.labels.get(EXPIRY_LABEL, "")
    return int(expires_at_s) if expires_at_s.isdigit() else 0


def _known(name: str, card: Card, folder: Path) -> Known:
    """`folder` may hold a note of whose it has become."""
    noted = noted_labels(folder)
    return Known(name, card.owner, card.expires_at_s, card.labels if noted is None else noted)


def _is_due(thing: Labelled, owners: frozenset[str], now_s: float) -> bool:
    return expiry_of(thing) <= now_s or thing.labels.get(OWNER_LABEL) in owners
