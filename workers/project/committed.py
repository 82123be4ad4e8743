"""What a sandbox would show of a commit that nothing has changed yet, told without one: a container takes longer to
open than all else before a first model call.

It answers only where it knows to say the same as the sandbox; `Unclear` sends the asker there.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from repo.errors import OutputTooLarge
from repo.listing import Listing, listing
from sandbox.base import WORKSPACE
from sandbox.errors import PathError

from ..agent.surroundings import SUBFOLDER, TOP_FILE, TOP_FOLDER, Git, Tree, outline

# What ripgrep minds beside git's own.
OTHER_IGNORE_FILES = frozenset({b".ignore", b".rgignore"})
PLAIN_NAME = re.compile(r"[\w.-]+")


class Unclear(Exception):
    """Only the sandbox itself can tell."""


class CommittedFiles:
    """The `Files` of a cached checkout, which is never written again. Its regular files lie in real folders, because
    that is how git writes them; whatever leads elsewhere is unclear."""

    def __init__(self, checkout: Path, commit: str, listed: Listing) -> None:
        self._checkout = checkout
        self._commit = commit
        self._listed = listed

    async def tree_and_git(self, folder: str) -> tuple[Tree, Git]:
        own = self._own(folder)
        start = b"" if own == b"." else own + b"/"
        paths = [path for path in self._listed.regular - self._listed.ignored if path.startswith(start)]
        if start and not paths:
            raise Unclear
        return shown_tree(path.removeprefix(start) for path in paths), Git(self._commit)

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        own = self._own(path)
        if own not in self._listed.regular:
            raise PathError(f"{path} is no file")
        return await asyncio.to_thread(_beginning, self._checkout / own.decode("utf-8", "surrogateescape"), max_bytes)

    async def resolve(self, path: str) -> str:
        self._own(path)
        return path

    async def glob(self, pattern: str, path: str, *, limit: int) -> tuple[list[str], bool]:
        """For the name of a file, anywhere below the folder."""
        if not PLAIN_NAME.fullmatch(pattern):
            raise Unclear
        start, end = self._own(path) + b"/", b"/" + pattern.encode()
        shown = self._listed.regular - self._listed.ignored
        found = sorted(own for own in shown if own.startswith(start) and own.endswith(end))
        names = [posixpath.join(WORKSPACE, own.decode("utf-8", "surrogateescape")) for own in found]
        return names[:limit], len(names) > limit

    def _own(self, path: str) -> bytes:
        """The path in the repository; `Unclear` when a link or a submodule is on the way."""
        own = posixpath.relpath(path, WORKSPACE).encode("utf-8", "surrogateescape")
        parts = own.split(b"/")
        if parts[0] == b".." or any(b"/".join(parts[: n + 1]) in self._listed.others for n in range(len(parts))):
            raise Unclear
        return own


async def committed_files(git_dir: Path, checkout: Path, commit: str) -> CommittedFiles | None:
    """None where only a sandbox can tell what it shows."""
    try:
        listed = await listing(git_dir, checkout)
    except OutputTooLarge:
        return None
    if any(posixpath.basename(path) in OTHER_IGNORE_FILES for path in listed.regular | listed.others):
        return None
    return CommittedFiles(checkout, commit, listed)


def shown_tree(paths: Iterable[bytes]) -> Tree:
    """As `surroundings.tree_of` shows files with these paths, relative to its folder."""
    entries: Counter[tuple[int, bytes]] = Counter()
    for path in paths:
        parts = path.replace(b"\n", b"?").split(b"/")
        if any(part.startswith(b".") for part in parts):
            continue  # hidden
        entries[(TOP_FOLDER if len(parts) > 1 else TOP_FILE, parts[0])] += 1
        if len(parts) > 2:
            entries[(SUBFOLDER, b"/".join(parts[:2]))] += 1
    return outline((kind, 0 if kind == TOP_FILE else count, path) for (kind, path), count in entries.items())


def _beginning(file: Path, max_bytes: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(max_bytes)
