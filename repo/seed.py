"""The index that a patch starts from, where a base has changed since the checkout was made."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from .changes import NO_MODE, changes_between
from .collect import Touched
from .scratch import scratch


@dataclass(frozen=True, slots=True)
class Seed:
    """An index of a base, and where that differs from the checkout: `present` it has otherwise, `absent` not at all."""

    index: Path
    present: frozenset[bytes] = field(default_factory=frozenset[bytes])
    absent: frozenset[bytes] = field(default_factory=frozenset[bytes])

    def seen_from_base(self, touched: Touched) -> Touched:
        """Of what differs from the checkout: what can differ from the base. What came with the base may be gone again
        without a trace."""
        tracked, new = frozenset(touched.tracked), frozenset(touched.new)
        return Touched(
            tracked=sorted((tracked | self.present) - self.absent),
            new=sorted((new - self.present) | (tracked & self.absent)),
        )


async def seed_of(git_dir: Path, base: str, *, checkout_base: str, checkout_index: Path, target: Path) -> Seed:
    """For `base`, kept at `target`. What it says of unchanged files is taken from the checkout's."""
    with scratch(git_dir / "objects") as own:
        shutil.copy2(checkout_index, own.index_file)
        await own.git("read-tree", "-m", "-i", base)
        changes = await changes_between(own, checkout_base, base)
        shutil.copy2(own.index_file, target)
    present = frozenset(change.path for change in changes if change.mode != NO_MODE)
    return Seed(target, present, frozenset(path for change in changes for path in change.paths) - present)
