"""What a tool server says has changed in its workspace. None of it is believed before it was looked at."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from repo.patch import MAX_PATCH_BYTES

from ..base import MIB
from ..channel import Channel
from ..errors import SandboxLost

TIMEOUT_S = 60.0  # 0.2 s for 20,000 files; the rest is a busy machine
MAX_LISTING_BYTES = 32 * MIB  # a workspace full of empty files with names of 100 bytes
MAX_DEPTH = 200  # the server's own; work on a path grows with the square of it
PARENTS = ("", ".", "..")


@dataclass(frozen=True, slots=True)
class Look:
    mode: int
    size_bytes: int

    @property
    def fits(self) -> bool:
        """Into a patch, as a file or as a link."""
        return stat.S_ISLNK(self.mode) or (stat.S_ISREG(self.mode) and self.size_bytes <= MAX_PATCH_BYTES)


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths are bytes, relative to the workspace, and each stays in it. `changed` are files, links and what else is no
    folder, and a `.git` of whatever kind; `gone` are folders, too."""

    changed: Mapping[bytes, Look]
    gone: frozenset[bytes]
    unreadable: tuple[bytes, ...]


async def changes_of(channel: Channel) -> Changes:
    arguments = {"max_bytes": MAX_LISTING_BYTES}
    reply = await channel.call("changes", arguments, timeout_s=TIMEOUT_S, max_bytes=MAX_LISTING_BYTES)
    return await asyncio.to_thread(decoded, reply.body)


def decoded(body: bytes) -> Changes:
    """`SandboxLost` for whatever no tool server of ours says."""
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _nonsense() from error
    match cast("dict[str, list[object]]", said):
        case {"changed": list(changed), "gone": list(gone), "unreadable": list(unreadable)}:
            looks = dict(map(_look, changed))
            left = tuple(map(_path, unreadable))
            hidden = frozenset(left)
            there = frozenset(path for path in map(_path, gone) if hidden.isdisjoint(parents(path)))
            found = Changes(looks, there, left)
        case _:
            raise _nonsense()
    if any(parent in found.changed for path in found.changed for parent in parents(path)):
        raise _nonsense()
    return found


def parents(path: bytes) -> list[bytes]:
    """The folders that `path` is in, the outermost first.

    >>> parents(b"a/b/c")
    [b'a', b'a/b']
    """
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def status_in(folder: Path, path: bytes) -> os.stat_result | None:
    """Of what stands there, if anything does; no link is followed on the way."""
    root = os.fsencode(folder)
    try:
        if all(stat.S_ISDIR(os.lstat(root + b"/" + parent).st_mode) for parent in parents(path)):
            return os.lstat(root + b"/" + path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    return None


def _look(entry: object) -> tuple[bytes, Look]:
    match entry:
        case [str(name), int(mode), int(size_bytes)] if size_bytes >= 0:
            return _path(name), Look(mode, size_bytes)
        case _:
            raise _nonsense()


def _path(name: object) -> bytes:
    parts = name.split("/") if isinstance(name, str) else []
    if not 0 < len(parts) <= MAX_DEPTH or parts[0] == ".git" or any(part in PARENTS or "\0" in part for part in parts):
        raise _nonsense()
    try:
        return os.fsencode("/".join(parts))
    except UnicodeEncodeError as error:
        raise _nonsense() from error


def _nonsense() -> SandboxLost:
    return SandboxLost("The sandbox's account of its changes makes no sense.")
