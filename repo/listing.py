"""The files of a cached checkout by their names, from the index beside it: nothing of the work tree is opened but its
.gitignore files, which git follows no link to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from .checkout import index_of
from .content import REGULAR_FILES
from .git import git

# Some 20,000 files: to read more of them would hold up whoever asks.
MAX_LISTING_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths as git has them. `others`: links and submodules. `ignored`: regular files that the repository's own
    .gitignore files name all the same."""

    regular: frozenset[bytes]
    others: frozenset[bytes]
    ignored: frozenset[bytes]


async def listing(git_dir: Path, checkout: Path) -> Listing:
    """`OutputTooLarge` when there are too many."""

    async def ls_files(*arguments: str) -> list[bytes]:
        listed = await git(
            *("ls-files", "-z", *arguments),
            git_dir=git_dir, work_tree=checkout, index_file=index_of(checkout), max_stdout_bytes=MAX_LISTING_BYTES,
        )  # fmt: skip
        return listed.fields

    staged, ignored = await asyncio.gather(
        ls_files("--stage"), ls_files("--cached", "--ignored", "--exclude-per-directory=.gitignore")
    )
    entries = [entry.split(b"\t", 1) for entry in staged]  # mode, blob and stage, then the path
    regular = frozenset(path for attributes, path in entries if attributes.split(b" ", 1)[0] in REGULAR_FILES)
    return Listing(regular, frozenset(path for _, path in entries) - regular, frozenset(ignored))
