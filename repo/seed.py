"""The index that a patch starts from, where a base has changed since the checkout was made."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from .changes import NO_MODE, changes_between
from .collect import Touched
from .scratch import scratch

# Of an index: see gitformat-index(5). An entry is as long as a multiple of 8, with at least one
# byte of nothing after its name.
HEAD_BYTES, CHECKSUM_BYTES = 12, 20
OWNER = slice(28, 36)  # user and group
NAME_AT, LENGTH = 62, slice(60, 62)
MAX_NAME = 0xFFF
EMPTY_OWNER = bytes(8)


def give_entries_to(index: Path, work_tree: Path) -> None:
    """Have git find the files of a checkout as it knows them, where `work_tree` shows them as another user's: it would
    read each of them otherwise. All of a checkout's files have one owner, who is found at the first of them, and no
    command can give a file to somebody."""
    content = index.read_bytes()
    before = _first_owner(content)
    after = work_tree.stat().st_uid.to_bytes(4, "big") + before[4:]
    if before in (after, EMPTY_OWNER):
        return
    body = content[:-CHECKSUM_BYTES].replace(before, after)
    index.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())


def _first_owner(content: bytes) -> bytes:
    """What was not read from a file has none."""
    at, entries = HEAD_BYTES, int.from_bytes(content[8:HEAD_BYTES], "big")
    for _ in range(entries if content[4:8] == b"\0\0\0\2" else 0):
        owner = content[at + OWNER.start : at + OWNER.stop]
        if owner != EMPTY_OWNER:
            return owner
        length = int.from_bytes(content[at + LENGTH.start : at + LENGTH.stop], "big") & MAX_NAME
        if length == MAX_NAME:  # or longer: its end is not told
            break
        at += (NAME_AT + length + 8) & ~7
    return EMPTY_OWNER


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
