"""The files that a task starts from: its base with the request's changes, whatever the work has done to them since."""

from __future__ import annotations

import asyncio

from repo.content import file_at
from repo.errors import OutputTooLarge
from repo.patch import apply_to_tree

from .of_task import TaskSandbox

MAX_FILE_BYTES = 10 * 1024 * 1024  # as for the tools


class BaseFiles:
    def __init__(self, sandbox: TaskSandbox) -> None:
        self._sandbox = sandbox
        self._tree = ""
        self._finding = asyncio.Lock()

    async def read(self, path: str) -> bytes | None:
        """The file's bytes by its path in the repository; None where there is none, or it is too large to look at."""
        spec = (await self._sandbox.prepared()).spec
        if spec.git_dir is None or not spec.base:
            return None
        try:
            return await file_at(spec.git_dir, await self._tree_id(), path, max_bytes=MAX_FILE_BYTES)
        except OutputTooLarge:
            return None

    async def _tree_id(self) -> str:
        async with self._finding:
            if not self._tree:
                prepared = await self._sandbox.prepared()
                git_dir, base, diff = prepared.spec.git_dir, prepared.spec.base, prepared.request_diff
                self._tree = await apply_to_tree(git_dir, base, diff) if git_dir and diff else base
            return self._tree
