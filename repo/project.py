"""Settings folders that a repository has for programs like ours, read from git's objects at a commit.

No checkout is needed, and nothing is followed: a link is an entry that no content is read of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .content import REGULAR_FILES, contents_of
from .git import git
from .wording import is_utf8

# Whoever trusts a repository trusts all that is in here, and nothing else.
SETTINGS = (".claude", ".opencode", ".muster", "muster.toml")
# A listing of about 8,000 files; no project has a tenth of it there.
MAX_LISTING_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SettingsFile:
    path: str
    blob: str  # git's id of its content
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """`digest` stands for every name, mode and byte in the settings folders; empty when there is nothing."""

    digest: str
    files: tuple[SettingsFile, ...] = ()


async def project_settings(git_dir: Path, commit: str) -> ProjectSettings:
    """The regular files of the settings folders at the root of `commit`.

    `GitFailed` for an unknown commit, `OutputTooLarge` when there are too many.
    """
    listed = await git(
        *("ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", commit, *SETTINGS),
        git_dir=git_dir,
        max_stdout_bytes=MAX_LISTING_BYTES,
    )
    entries = [(attributes.split(), path) for attributes, path in (entry.split(b"\t", 1) for entry in listed.fields)]
    whole = hashlib.sha256()
    for (mode, _, blob, _), path in entries:
        whole.update(b"%s %s %s\0" % (mode, blob, path))
    files = (
        SettingsFile(path.decode(), blob.decode(), int(size))
        for (mode, _, blob, size), path in entries
        if mode in REGULAR_FILES and is_utf8(path)
    )
    return ProjectSettings(f"sha256:{whole.hexdigest()}" if entries else "", tuple(files))


async def contents(git_dir: Path, files: Iterable[SettingsFile]) -> dict[str, bytes]:
    """What is in these files, by path. Who asks has looked at their sizes."""
    wanted = tuple(files)
    texts = await contents_of(
        git_dir, [file.blob for file in wanted], max_bytes=sum(file.size_bytes for file in wanted)
    )
    return dict(zip((file.path for file in wanted), texts, strict=True))
