"""Both sides of a change, as git has them."""

from __future__ import annotations

from dataclasses import dataclass

from repo.content import file_at
from repo.errors import OutputTooLarge
from repo.mirror import Mirror

from .diff import FilePatch
from .settings_of import has_other_settings

MAX_SETTINGS_BYTES = 1024 * 1024  # no project's own settings are larger: what is counts as edited


@dataclass(frozen=True, slots=True)
class Trees:
    """Where the files of both sides can be read. Without a mirror nobody looks into them: names must do."""

    mirror: Mirror | None
    base: str
    tree: str

    async def paths(self) -> list[str]:
        return await self.mirror.files(self.base) if self.mirror else []

    async def before(self, path: str) -> bytes | None:
        return await self._read(self.base, path)

    async def text(self, path: str, *, after: bool = False) -> str | None:
        """None where it cannot be read, or is not there; in its place a byte that is no UTF-8 is a `\\ufffd`."""
        try:
            content = await self._read(self.tree if after else self.base, path)
        except OutputTooLarge:
            return None
        return None if content is None else content.decode("utf-8", "replace")

    async def has_other_settings(self, part: FilePatch) -> bool:
        try:
            sides = await self._read(self.base, part.old_path or part.path), await self._read(self.tree, part.path)
        except OutputTooLarge:
            return True
        return self.mirror is None or has_other_settings(part.path, *sides)

    async def _read(self, tree: str, path: str) -> bytes | None:
        if self.mirror is None:
            return None
        return await file_at(self.mirror.git_dir, tree, path, max_bytes=MAX_SETTINGS_BYTES)
