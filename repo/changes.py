"""The difference between two trees, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from .fairness import at_once
from .scratch import Scratch

NO_MODE = "000000"
SYMLINK_MODE = "120000"
COMPARE = ("diff-tree", "-r", "-M", "--no-color", "--no-ext-diff", "--no-textconv")
LISTED = ("-z", "--raw", "--numstat")
AS_PATCH = ("-p", "--binary", "--full-index")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file. `added` and `removed` count lines, and are None for a binary file.

    `status` is one of A M D R T (T: the kind of file changed). `old_path` is set for a rename alone. `mode` is git's
    six octal digits after the change, `000000` for a deleted file. Paths are relative to the tree and valid UTF-8.
    """

    path: str
    status: str
    old_path: str | None
    added: int | None
    removed: int | None
    mode: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches: both sides of a rename."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A change as the trees hold it: modes, object ids and the names' bytes (`old_path` is `path` but for renames)."""

    status: str
    old_mode: str
    old_id: str
    old_path: bytes
    mode: str
    id: str
    path: bytes
    added: int | None
    removed: int | None

    @property
    def paths(self) -> frozenset[bytes]:
        return frozenset((self.old_path, self.path))

    def as_file_change(self) -> FileChange:
        old_path = self.old_path.decode() if self.status == "R" else None
        return FileChange(self.path.decode(), self.status, old_path, self.added, self.removed, self.mode)


async def changes_between(own: Scratch, base: str, tree: str) -> tuple[TreeChange, ...]:
    """Changes from `base` to `tree` in the order of their paths, with renames found."""
    told = await own.git(*COMPARE, *LISTED, "--end-of-options", base, tree)
    return await at_once(len(told.fields), partial(_parsed, told.fields))


async def changes_and_diff(own: Scratch, base: str, tree: str, max_bytes: int) -> tuple[tuple[TreeChange, ...], bytes]:
    """The changes, and all of them as `git apply` reads them; `OutputTooLarge` where both are over `max_bytes`."""
    told = await own.git(*COMPARE, *LISTED, *AS_PATCH, "--end-of-options", base, tree, max_stdout_bytes=max_bytes)
    listed, _, diff = told.stdout.partition(b"\0\0")  # no name is empty
    fields = listed.split(b"\0") if listed else []
    return await at_once(len(fields), partial(_parsed, fields)), diff


async def diff_between(own: Scratch, base: str, tree: str, max_bytes: int) -> bytes:
    told = await own.git(*COMPARE, *AS_PATCH, "--end-of-options", base, tree, max_stdout_bytes=max_bytes)
    return told.stdout


def _parsed(fields: Sequence[bytes]) -> tuple[TreeChange, ...]:
    middle = _end_of_raw(fields)
    counts = dict(_parse_counts(iter(fields[middle:])))
    return tuple(_parse_changes(iter(fields[:middle]), counts))


def _end_of_raw(fields: Sequence[bytes]) -> int:
    """git writes all of the one format, then all of the other; a colon where a record begins tells them apart."""
    at = 0
    while at < len(fields) and fields[at].startswith(b":"):
        at += 3 if fields[at].rpartition(b" ")[2].startswith(b"R") else 2
    return at


def _parse_counts(fields: Iterator[bytes]) -> Iterator[tuple[bytes, tuple[int | None, int | None]]]:
    """`added TAB removed TAB path`; for a rename the path is empty, and old and new path follow."""
    for field in fields:
        added, removed, path = field.split(b"\t", 2)
        if not path:
            next(fields)
            path = next(fields)
        yield path, (None, None) if added == b"-" else (int(added), int(removed))


def _parse_changes(fields: Iterator[bytes], counts: dict[bytes, tuple[int | None, int | None]]) -> Iterator[TreeChange]:
    """`:old-mode new-mode old-id new-id status`, then the path, or the old and the new path of a rename."""
    for field in fields:
        old_mode, mode, old_id, new_id, status = field.decode().removeprefix(":").split(" ")
        old_path = next(fields)
        path = next(fields) if status[0] == "R" else old_path
        added, removed = counts.get(path, (None, None))
        yield TreeChange(status[0], old_mode, old_id, old_path, mode, new_id, path, added, removed)
