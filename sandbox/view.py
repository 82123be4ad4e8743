"""How a workspace is looked at from outside, for a patch: a folder of this host, and which paths in it can differ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from repo.collect import Touched
from repo.errors import PatchRefused, RepoError
from repo.git import FOR_OTHERS, git
from repo.seed import Seed

from .base import SandboxSpec
from .changed import touched_paths
from .setup_files import copy, hidden, ignored, written
from .touched import Stamps, stamps_of

APPLY = ("apply", "--binary", "--whitespace=nowarn", "-")


@dataclass(frozen=True, slots=True)
class View:
    """`touched` is all that can differ; None: anything can. `partial`: and no more than that is in `work_tree`.
    `hidden` is no part of a patch: the sandbox has found it there."""

    work_tree: Path
    touched: Touched | None
    warnings: tuple[str, ...] = ()
    partial: bool = False
    hidden: Sequence[bytes] = ()


class Keeper(Protocol):
    """What holds the processes and the workspace of one sandbox, from outside. A sandbox that is gone is
    `SandboxLost`."""

    async def freeze(self) -> None:
        """Every process stops where it stands, and none of them can start another again."""
        ...

    async def thaw(self) -> None: ...

    async def stamps(self) -> Stamps | None:
        """Of what was written so far; None when nothing can be said."""
        ...

    def view(self, git_dir: Path, seed: Seed | None, *, whole: bool) -> AbstractAsyncContextManager[View]:
        """Nobody may write meanwhile. `seed` is of the sandbox's base, as it is now; `whole`: not a partial one."""
        ...

    async def setup_files(self, target: Path) -> None:
        """Copy there what was written and git ignores (see `setup_files`). Nothing may run in the sandbox."""
        ...

    async def apply(self, git_dir: Path, diff: bytes) -> None:
        """Change a workspace that its commands cannot change. `PatchRefused` says why not."""
        ...


class KeptRoot(Protocol):
    """What came of a root that setup commands wrote, once nothing runs any more."""

    @property
    def max_bytes(self) -> int: ...

    @property
    def max_files(self) -> int: ...

    @property
    def hint(self) -> str:
        """What to do where that is not enough."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """Where what is written ends at that, inside."""
        ...

    async def take(self) -> tuple[int, int]:
        """Bytes and files of what differs from the image; `LimitExceeded` where it is more than may be kept."""
        ...

    async def commit(self, image: str) -> None:
        """Keep what was taken as `image`."""
        ...


class Overlaid(Protocol):
    """A workspace that is mounted on this host."""

    async def work_tree(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class OverlayView:
    """What keepers of overlays have in common. `upper` holds what was written, `layer` what lies over the checkout."""

    spec: SandboxSpec
    upper: Path
    layer: Path | None = None

    async def stamps(self) -> Stamps | None:
        return await asyncio.to_thread(stamps_of, self.upper)

    @asynccontextmanager
    async def of(self, overlaid: Overlaid, seed: Seed | None) -> AsyncGenerator[View]:
        checkout = self.spec.checkout
        touched = checkout and seed and await asyncio.to_thread(touched_paths, self.upper, checkout)
        found = await asyncio.to_thread(hidden, self.layer, self.upper, checkout) if self.layer and checkout else ()
        yield View(await overlaid.work_tree(), touched or None, hidden=found)

    async def setup_files(self, overlaid: Overlaid, target: Path) -> None:
        checkout = self.spec.checkout
        assert checkout is not None
        limits = self.spec.limits
        paths = await asyncio.to_thread(written, self.upper, checkout)
        kept = await ignored(checkout, await overlaid.work_tree(), paths)
        await asyncio.to_thread(copy, kept, self.upper, target, limits.workspace_bytes, limits.workspace_inodes)


async def apply_from_outside(overlaid: Overlaid, git_dir: Path, diff: bytes) -> None:
    """A read-only workspace has no writer, so that its tree holds still while the host writes. Git's hardened
    runner refuses paths that leave the tree or go through a link."""
    work_tree = await overlaid.work_tree()
    try:
        # what it makes is root's, and the sandbox's user reads it
        await git(*APPLY, git_dir=git_dir, work_tree=work_tree, cwd=work_tree, stdin=diff, umask=FOR_OTHERS)
    except RepoError as error:
        raise PatchRefused(f"The patch does not apply to the workspace: {error}") from error
