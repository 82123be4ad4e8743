"""From an untrusted work tree into an index of ours. The tree's own `.git` is never read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import GitFailed
from .scratch import Scratch, scratch
from .survey import Survey, remove, survey_tree
from .wording import capped, each, readable

GITLINK_MODE = b"160000"
GITLINK_MODE_IN_INDEX = b"\x00\x00\xe0\x00"


@dataclass(frozen=True, slots=True)
class Touched:
    """All paths at which a work tree can differ from its base: files and links that are there, or were. No repository
    of its own is among them, and nothing that a patch cannot hold."""

    tracked: Sequence[bytes]  # the base has them
    new: Sequence[bytes]


async def update_touched(own: Scratch, work_tree: Path, touched: Touched) -> bool:
    """As `collect` does, without a look at the rest, of which the index need not know. False where git has something to
    say: then nobody knows but `collect`."""
    try:
        new = await _not_ignored(own, work_tree, [*touched.new])
        update = ("update-index", "--add", "--remove", "-z", "--stdin")
        updated = await own.git(*update, work_tree=work_tree, stdin=_nul_ended([*touched.tracked, *new]))
    except GitFailed:
        return False
    return not updated.stderr


async def not_ignored(git_dir: Path, work_tree: Path, paths: Sequence[bytes]) -> list[bytes]:
    """Those that the rules in `work_tree` let into a patch, whether they are there or not."""
    with scratch(git_dir / "objects") as own:
        return await _not_ignored(own, work_tree, [*paths])


async def collect(
    own: Scratch, work_tree: Path, *, max_file_bytes: int, hidden: Sequence[bytes] = ()
) -> tuple[str, ...]:
    """Bring the index of `own` to the state of `work_tree`; the answer says, in sentences, what could not come along.

    Files that the tree's own .gitignore files name stay out, unless the index already has them; so does what is
    `hidden`.
    """
    seen = await asyncio.to_thread(survey_tree, os.fsencode(work_tree), max_file_bytes=max_file_bytes)
    for trap in seen.traps:
        await asyncio.to_thread(remove, os.fsencode(work_tree), trap)
    seen.oversized[:] = await _not_ignored(own, work_tree, seen.oversized)
    untouched = await _untouched(own, work_tree) if seen.oversized else set[bytes]()
    complaints = await _add_all(own, work_tree, left_out=[*seen.nested, *seen.oversized, *hidden])
    listed = await _listed(own) if seen.nested or await asyncio.to_thread(_may_have_submodules, own) else []
    links = [path for entry, path in listed if entry.startswith(GITLINK_MODE)]
    left = await asyncio.to_thread(_not_empty, os.fsencode(work_tree), links)
    nested = await _add_nested(own, work_tree, seen, listed, links) if seen.nested else ()
    submodules = each(left, "is a submodule: what changed in it was left out")
    seen.oversized[:] = [path for path in seen.oversized if path not in untouched]
    return (*_warnings(seen, max_file_bytes), *submodules, *nested, *complaints)


def _warnings(seen: Survey, max_file_bytes: int) -> Sequence[str]:
    return [
        *each(seen.oversized, f"is larger than {max_file_bytes} bytes and was left out"),
        *each(seen.traps, "is a pipe where git looks for its rules, and was removed"),
        *each(seen.special, "is not a regular file and was left out"),
        *each(seen.unreadable, "cannot be read and was left out"),
    ]


async def _untouched(own: Scratch, work_tree: Path) -> set[bytes]:
    """Files that are as the index has them, by their stamps alone: what is too large is not read for this."""
    known = await own.git("ls-files", "-z")
    # Asked after submodules, git would start itself in them, where the workspace's own settings count.
    ask = ("diff-files", "--name-only", "-z", "--ignore-submodules=all")
    touched = await own.git(*ask, work_tree=work_tree)
    return {*known.fields} - {*touched.fields}


async def _add_all(own: Scratch, work_tree: Path, *, left_out: list[bytes]) -> list[str]:
    specs = [b".", *(b":(exclude,literal)" + path for path in left_out)]
    arguments = ("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    # Exit code 1 means that some files were not added; git names them.
    added = await own.git(*arguments, work_tree=work_tree, stdin=_nul_ended(specs), ok=(0, 1))
    return capped([f"git: {readable(line.encode())}" for line in added.stderr.splitlines()]) if added.exit_code else []


Entries = list[tuple[bytes, bytes]]  # of an index: mode and id, path


async def _listed(own: Scratch) -> Entries:
    fields = (await own.git("ls-files", "--stage", "-z")).fields
    return [(entry, path) for entry, _, path in (field.partition(b"\t") for field in fields)]


def _may_have_submodules(own: Scratch) -> bool:
    """An answer without a process: the bytes of such an entry's mode are somewhere in the index, or there is none."""
    return own.index_file.exists() and GITLINK_MODE_IN_INDEX in own.index_file.read_bytes()


def _not_empty(root: bytes, folders: Sequence[bytes]) -> list[bytes]:
    """git takes whatever lies in a submodule's folder for the submodule, even where none was ever checked out."""
    return [folder for folder in folders if _holds_something(Path(os.fsdecode(root + b"/" + folder)))]


def _holds_something(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


async def _add_nested(
    own: Scratch, work_tree: Path, seen: Survey, listed: Entries, links: Sequence[bytes]
) -> list[str]:
    """Files of a repository inside the work tree: git itself would store a link to a commit that nobody has."""
    warnings: list[str] = []
    for folder in (folder for folder in seen.nested if folder not in links):
        inside = folder + b"/"
        tracked = [path for _, path in listed if path.startswith(inside)]
        new = await _not_ignored(own, work_tree, [path for path in seen.nested_files if path.startswith(inside)])
        update = ("update-index", "--add", "--remove", "-z", "--stdin")
        try:
            await own.git(*update, work_tree=work_tree, stdin=_nul_ended(sorted({*tracked, *new})))
            warnings += each([folder], "is a repository of its own: its files were collected, its history not")
        except GitFailed as e:
            warnings += each([folder], f"is a repository of its own and was left out: {e}")
    return warnings


async def _not_ignored(own: Scratch, work_tree: Path, paths: list[bytes]) -> list[bytes]:
    if not paths:
        return []
    ask = ("check-ignore", "--no-index", "-z", "--stdin")
    ignored = await own.git(*ask, work_tree=work_tree, stdin=_nul_ended(paths), ok=(0, 1))
    left_out = set(ignored.fields)
    return [path for path in paths if path not in left_out]


def _nul_ended(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
