"""A look over an untrusted work tree, before git sees it: what would make its collection fail or lose files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Survey:
    """Paths are bytes, relative to the work tree. `nested` are outermost repositories inside it."""

    nested: list[bytes] = field(default_factory=list[bytes])
    nested_files: list[bytes] = field(default_factory=list[bytes])
    oversized: list[bytes] = field(default_factory=list[bytes])
    special: list[bytes] = field(default_factory=list[bytes])  # sockets, pipes, devices: git passes them by
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
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        found.special.append(path)
    elif status.st_size > max_file_bytes:
        found.oversized.append(path)
    elif in_nested:
        found.nested_files.append(path)
