"""A disk that caches of several tenants share: is there room for more of one's?"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import FREE, DiskFull
from .keeping import GIB, MIB, SMALL_BYTES, leaves_room
from .weight import Weight

OWN_HINT = "wait until its tasks have ended, or give the state folder a larger disk"


@dataclass(frozen=True, slots=True)
class Wish:
    """`come_bytes` are on the disk already, and in no note."""

    thing: Path
    tenant: str
    coming: Weight
    come_bytes: int = 0


def worth_bytes(root: Path, weight: Weight) -> int:
    """What it takes from others: of the files that the disk can hold, each is worth its part of the bytes."""
    return max(weight.size_bytes, weight.files * _file_bytes(os.statvfs(root)))


def _file_bytes(disk: os.statvfs_result) -> int:
    """Nothing where files have no limit of their own."""
    return disk.f_blocks * disk.f_frsize // disk.f_files if disk.f_files else 0


class Disk:
    """The disk as it will be when what is wished for has come."""

    def __init__(self, root: Path, wish: Wish, shares: Iterable[Mapping[str, int]], elsewhere_bytes: int) -> None:
        """`shares`: of each thing that is kept on it, or comes, what each tenant has. Of that, `elsewhere_bytes` are
        still to come."""
        self._root = root
        self._wish = wish
        self._worth_bytes = worth_bytes(root, wish.coming)
        self.held_bytes = Counter({wish.tenant: self._worth_bytes + wish.come_bytes})
        for each in shares:
            self.held_bytes.update(each)
        self._elsewhere_bytes = elsewhere_bytes
        self._least_bytes = self._now_bytes

    def lose(self, shares: Mapping[str, int]) -> None:
        """Not every file system says at once what has become free."""
        self.held_bytes.subtract(shares)
        self._least_bytes += sum(shares.values())

    def has_bytes(self) -> bool:
        return leaves_room(self._free_bytes, self._own_bytes, self._disk_bytes)

    def has_room(self) -> bool:
        return self.has_bytes() and self._has_files(self._own_bytes)

    def has_little(self) -> bool:
        """So little does the tenant have that it may take all that there is, and that is enough."""
        now = os.statvfs(self._root)
        has_files = not now.f_files or now.f_favail >= self._wish.coming.files
        return self._own_bytes <= SMALL_BYTES and self._free_bytes >= 0 and has_files

    def full(self) -> DiskFull:
        full, wish = f"The disk is full: no space left in {self._root}", self._wish
        if not leaves_room(self._free_bytes, 0, self._disk_bytes):
            left_bytes = max(0, self._free_bytes + wish.coming.size_bytes)
            takes = f"{wish.thing.name[:12]} takes {(wish.coming.size_bytes + wish.come_bytes) / MIB:,.0f}"
            return DiskFull(f"{full}: {left_bytes / MIB:,.0f} MiB are left, and {takes}", hint=FREE)
        if not self._has_files(0):
            return DiskFull(f"{full}: it can hold hardly any more files", hint=FREE)
        own = f"this tenant's tasks at work have {self._own_bytes / GIB:,.1f} GiB with it, or as much in files"
        return DiskFull(f"{full} for one tenant: {own}, and must leave a third as much free", hint=OWN_HINT)

    @property
    def _own_bytes(self) -> int:
        return self.held_bytes[self._wish.tenant]

    @property
    def _free_bytes(self) -> int:
        return max(self._now_bytes, self._least_bytes) - self._wish.coming.size_bytes - self._elsewhere_bytes

    def _has_files(self, own_bytes: int) -> bool:
        now = os.statvfs(self._root)
        left_bytes = now.f_favail * _file_bytes(now) - self._worth_bytes - self._elsewhere_bytes
        return not now.f_files or leaves_room(left_bytes, own_bytes, self._disk_bytes)

    @property
    def _now_bytes(self) -> int:
        return shutil.disk_usage(self._root).free

    @property
    def _disk_bytes(self) -> int:
        return shutil.disk_usage(self._root).total
