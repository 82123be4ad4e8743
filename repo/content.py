"""The files of a commit or a tree, as git keeps it: no work tree, no filters, no links followed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from .git import git
from .weight import MAX_LISTING_BYTES
from .wording import is_utf8

REGULAR_FILES = (b"100644", b"100755")
IS_ID = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


async def files_of(git_dir: Path, commit: str) -> list[str]:
    """Paths of a commit's regular files; no links, no submodules, and no names that are not UTF-8.

    `OutputTooLarge` for a commit that names billions: no machine could hold their list.
    """
    return list(await blobs_of(git_dir, commit))


async def blobs_of(git_dir: Path, commit: str) -> dict[str, str]:
    """As `files_of`, each with its mode and the id of its content: what is equal there is equal in the file."""
    ask = ("ls-tree", "-r", "-z", "--full-tree", commit)
    listed = await git(*ask, git_dir=git_dir, max_stdout_bytes=MAX_LISTING_BYTES)
    entries = [entry.split(b"\t", 1) for entry in listed.fields]
    return {
        path.decode(): attributes.decode()
        for attributes, path in entries
        if attributes.split(b" ", 1)[0] in REGULAR_FILES and is_utf8(path)
    }


async def links_of(git_dir: Path, tree: str, *, max_bytes: int) -> dict[str, str]:
    """Paths of its symbolic links, and what stands in each; `OutputTooLarge` for more than `max_bytes` of that."""
    ask = ("ls-tree", "-r", "-z", "--full-tree", tree)
    listed = await git(*ask, git_dir=git_dir, max_stdout_bytes=MAX_LISTING_BYTES)
    entries = [entry.split(b"\t", 1) for entry in listed.fields]
    found = [(path, attributes.split()) for attributes, path in entries if is_utf8(path)]
    links = {path.decode(): words[2].decode() for path, words in found if words[0] == b"120000"}
    targets = await contents_of(git_dir, list(links.values()), max_bytes=max_bytes)
    return {path: target.decode("utf-8", "replace") for path, target in zip(links, targets, strict=True)}


async def ids_at(git_dir: Path, tree: str, paths: Sequence[str]) -> list[str]:
    """git's id of what `tree` (a commit or tree id) has at each path, in their order; empty where it has nothing.

    No path may hold a line's end: git reads one a line.
    """
    asked = "".join(f"{tree}:{path}\n" for path in paths).encode("utf-8", "surrogateescape")
    told = await git("cat-file", "--batch-check=%(objectname)", git_dir=git_dir, stdin=asked)
    return [line if IS_ID.fullmatch(line) else "" for line in told.stdout.decode("utf-8", "replace").split("\n")[:-1]]


async def file_at(git_dir: Path, tree: str, path: str, *, max_bytes: int) -> bytes | None:
    """The file's bytes; None where `tree` (a commit or tree id) has no regular file at this path.

    `OutputTooLarge` for one that is larger than `max_bytes`.
    """
    if posixpath.isabs(path) or posixpath.normpath(path) != path or path.split("/")[0] in ("", ".", ".."):
        return None
    listed = await git("--literal-pathspecs", "ls-tree", "-z", "--full-tree", tree, "--", path, git_dir=git_dir)
    for entry in listed.fields:
        attributes, _, name = entry.partition(b"\t")
        mode, _, kind_and_id = attributes.partition(b" ")
        if mode in REGULAR_FILES and name == path.encode("utf-8", "surrogateescape"):
            blob = kind_and_id.split(b" ")[1].decode()
            return (await git("cat-file", "blob", blob, git_dir=git_dir, max_stdout_bytes=max_bytes)).stdout
    return None


async def contents_of(git_dir: Path, blobs: Sequence[str], *, max_bytes: int) -> list[bytes]:
    """What git keeps under these ids, in their order. `OutputTooLarge` for more than `max_bytes` together."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    heads_bytes = 128 * len(blobs)
    told = await git("cat-file", "--batch", git_dir=git_dir, stdin=asked, max_stdout_bytes=max_bytes + heads_bytes)
    found: list[bytes] = []
    at = 0
    for _ in blobs:  # each answer is a line `id type size`, the content and a line feed
        start = told.stdout.index(b"\n", at) + 1
        size = int(told.stdout[at:start].rpartition(b" ")[2])
        found.append(told.stdout[start : start + size])
        at = start + size + 1
    return found


async def sizes_of(git_dir: Path, blobs: Sequence[str]) -> list[int]:
    """In bytes, in their order."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    told = await git("cat-file", "--batch-check=%(objectsize)", git_dir=git_dir, stdin=asked)
    return [int(line) for line in told.stdout.split()]


async def lines_with(git_dir: Path, tree: str, words: Sequence[str], *, max_bytes: int) -> list[tuple[str, str]]:
    """The lines of files in `tree` that hold one of these words, each with its path; whatever its attributes say.

    A word is one where no letter, digit or underscore is beside it. `OutputTooLarge` beyond `max_bytes` of lines.
    """
    if not words:
        return []
    ask = ("grep", "-a", "-z", "-w", "-F", "--full-name", *(part for word in words for part in ("-e", word)), tree)
    told = await git(*ask, git_dir=git_dir, ok=(0, 1), max_stdout_bytes=max_bytes)
    found: list[tuple[str, str]] = []
    for line in told.stdout.decode("utf-8", "replace").split("\n"):
        path, mark, text = line.removeprefix(f"{tree}:").partition("\0")
        found += [(path, text)] if mark else []
    return found
