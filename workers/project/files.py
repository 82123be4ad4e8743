"""What is asked of a workspace's files to learn what a project says: a sandbox answers it, and so does a commit."""

from __future__ import annotations

import posixpath
from typing import Protocol

from sandbox.base import WORKSPACE

# What a repository says in here is for each of its tasks to know, whatever their scopes let them read.
SETTINGS = frozenset({".agents", ".claude", ".opencode", ".muster"})


class Files(Protocol):
    """See `sandbox.base.Sandbox` for what each promises."""

    async def read(self, path: str, *, max_bytes: int) -> bytes: ...
    async def resolve(self, path: str) -> str: ...
    async def glob(self, pattern: str, path: str, *, limit: int) -> tuple[list[str], bool]: ...


class Links(Protocol):
    async def resolve(self, path: str) -> str: ...


async def is_settings(files: Links, path: str) -> bool:
    """Is the file in a folder of settings, also by where links lead? Else it is told to whom its task's scope lets
    read it, and to nobody else."""
    real = await files.resolve(path)
    return posixpath.relpath(real, WORKSPACE).partition("/")[0] in SETTINGS
