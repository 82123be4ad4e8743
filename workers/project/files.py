"""What is asked of a workspace's files to learn what a project says: a sandbox answers it, and so does a commit."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """See `sandbox.base.Sandbox` for what each promises."""

    async def read(self, path: str, *, max_bytes: int) -> bytes: ...
    async def resolve(self, path: str) -> str: ...
    async def glob(self, pattern: str, path: str, *, limit: int) -> tuple[list[str], bool]: ...
