"""A look over an untrusted work tree, before git sees it: what would make its collection fail or lose files."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

# What git reads in a work tree, wherever it stands.
READ_BY_GIT = frozenset({b".gitignore", b".gitattributes", b".gitmodules"})
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Survey:
    """Paths are bytes, relative to the work tree. `nested` are outermost repositories inside it."""

    nested: list[bytes] = field(default_factory=list[bytes])
    nested_files: list[bytes] = field(default_factory=list[bytes])
    oversized: list[bytes] = field(default_factory=list[bytes])
    special: list[bytes] = field(default_factory=list[bytes])  # sockets, pipes, devices: git passes them by
    traps: list[bytes] = field(default_factory=list[bytes])  # pipes that git would open, and wait for a writer
    unreadable: list[bytes] = field(default_factory=list[bytes])


def survey_tree(root: bytes, *, max_file_bytes: int) -> Survey:
    """Walk without following any link; never raises for what the tree holds."""
    found = Survey()
    folders = [(b"", False)]
    while folders:
        folder, in_nested = folders.pop()
        entries = _entries(root, folder, found)
        if folder and not in_nested and any(entry.name == b".git" for entry in entries):
            found.nested.append(folder)
            in_nested = True
        for entry in entries:
            if entry.name == b".git":
                continue
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append((path, in_nested))
            else:
                _note(found, path, entry, in_nested, max_file_bytes)
    return found


def _entries(root: bytes, folder: bytes, found: Survey) -> list[os.DirEntry[bytes]]:
    try:
        return sorted(os.scandir(root + b"/" + folder), key=lambda entry: entry.name)
    except OSError:  # no permission, a path longer than the system takes, or gone meanwhile
        found.unreadable.append(folder)
        return []


def _note(found: Survey, path: bytes, entry: os.DirEntry[bytes], in_nested: bool, max_file_bytes: int) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        found.unreadable.append(path)
        return
    if stat.S_ISFIFO(status.st_mode) and entry.name in READ_BY_GIT:
        found.traps.append(path)
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        found.special.append(path)
    elif status.st_size > max_file_bytes:
        found.oversized.append(path)
    elif in_nested:
        found.nested_files.append(path)


def remove(root: bytes, path: bytes) -> None:
    """A file of the work tree, through no link whatever stands there by now; what cannot be removed stays."""
    *folders, name = path.split(b"/")
    with suppress(OSError), ExitStack() as opened:
        place = os.open(root, FOLDER)
        opened.callback(os.close, place)
        for folder in folders:
            place = os.open(folder, FOLDER, dir_fd=place)
            opened.callback(os.close, place)
        os.unlink(name, dir_fd=place)
