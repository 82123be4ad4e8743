"""The version of git on this machine."""

from __future__ import annotations

from .git import git

OLDEST_GIT = (2, 38)  # `merge-tree --write-tree`


async def git_version() -> tuple[int, int]:
    """Major and minor; at least `OLDEST_GIT` is needed."""
    words = (await git("version", git_dir=None)).line.split()
    major, minor = words[2].split(".")[:2]
    return int(major), int(minor)
