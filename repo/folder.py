"""A small folder as a value: read once, within limits, and known by one hash of all that is in it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .errors import FolderRefused

MAX_FILES = 200
MAX_FILE_BYTES = 1024 * 1024
MAX_BYTES = 8 * 1024 * 1024
OWN = ".git"  # how a folder came here is no part of it


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file, or a link, whose content is where it leads. `path` is relative, with slashes."""

    path: str
    content: bytes
    kind: str = "file"  # or program, or link

    @property
    def mode(self) -> int:
        return 0o755 if self.kind == "program" else 0o644


def entries_in(folder: Path) -> tuple[Entry, ...]:
    """By path. `FolderRefused` for what is too large, or neither file nor link; no link is followed."""
    found: list[Entry] = []
    size = 0
    for path in _paths(folder):
        entry = _entry(path, path.relative_to(folder).as_posix())
        size += len(entry.content)
        if len(found) == MAX_FILES or size > MAX_BYTES:
            hint = f"at most {MAX_FILES} files and {MAX_BYTES // 1024**2} MiB: leave out what is not read"
            raise FolderRefused(f"{folder} holds too much", hint=hint)
        found.append(entry)
    return tuple(sorted(found, key=lambda each: each.path))


def digest_of(entries: Iterable[Entry]) -> str:
    """Of names, kinds and bytes; not of times and owners, which another machine has otherwise."""
    whole = hashlib.sha256()
    for each in sorted(entries, key=lambda each: each.path):
        whole.update(f"{each.kind}\0{each.path}\0{len(each.content)}\0".encode())
        whole.update(each.content)
    return whole.hexdigest()


def _paths(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, onerror=_cannot):
        here = Path(root)
        linked = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in linked and not (here == folder and name == OWN)]
        yield from (here / name for name in (*files, *linked) if not (here == folder and name == OWN))


def _entry(path: Path, name: str) -> Entry:
    try:
        name.encode()
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return Entry(name, os.fsencode(path.readlink()), "link")
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            hint = f"a file has {MAX_FILE_BYTES // 1024**2} MiB at most"
            raise FolderRefused(f"{path} is too large, or no file", hint=hint)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except UnicodeEncodeError as e:
        raise FolderRefused("a file's name is not UTF-8", hint="give it another name") from e
    except OSError as e:
        _cannot(e)
    return Entry(name, content, "program" if found.st_mode & stat.S_IXUSR else "file")


def _cannot(error: OSError) -> NoReturn:
    raise FolderRefused(f"{error.filename} cannot be read: {error.strerror}") from error
