"""Keeps a sandbox whose workspace no program of this host can read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from repo.seed import Seed

from ..channel import Channel
from ..tools import ToolClient
from ..touched import Stamps
from ..view import View
from .fetched import fetch_setup_files, fetched_view

HOLD_TIMEOUT_S = 30.0  # the server gives up after 5

OpenWriter = Callable[[], AbstractAsyncContextManager[ToolClient]]


@dataclass(frozen=True, slots=True)
class Inside:
    """See `view.Keeper`. The tool server does all of it. `open_writer` gives tools that may write where the sandbox's
    own may not."""

    channel: Channel
    checkout: Path | None
    open_writer: OpenWriter

    async def freeze(self) -> None:
        await self.channel.call("hold", {}, timeout_s=HOLD_TIMEOUT_S, max_bytes=0)

    async def thaw(self) -> None:
        await self.channel.call("release", {}, timeout_s=HOLD_TIMEOUT_S, max_bytes=0)

    async def stamps(self) -> Stamps | None:
        return None

    def view(self, git_dir: Path, seed: Seed | None, *, whole: bool) -> AbstractAsyncContextManager[View]:
        return fetched_view(self.channel, self.checkout, git_dir, seed, whole=whole)

    async def setup_files(self, target: Path) -> None:
        assert self.checkout is not None
        await fetch_setup_files(self.channel, self.checkout, target)

    async def apply(self, git_dir: Path, diff: bytes) -> None:
        async with self.open_writer() as writer:
            await writer.apply_inside(diff)
