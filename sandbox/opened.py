"""An open sandbox: tools inside, a workspace outside, and one way to end both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from repo.checkout import index_of
from repo.cover import over_files
from repo.errors import TreePartial
from repo.patch import Patch, apply_to_tree, extract_patch
from repo.seed import Seed, seed_of

from .base import WORKSPACE, SandboxSpec
from .channel import Channel
from .errors import LimitExceeded, SandboxError
from .handed import note_labels
from .renewal import Renewal
from .tools import ToolClient
from .touched import Stamps
from .unfit import full_disk
from .view import Keeper, KeptRoot

BASE_INDEX = "base.index"  # in the folder of a sandbox whose base is not its checkout's


class OpenSandbox(ToolClient):
    """See `Sandbox` for what the calls promise."""

    def __init__(
        self,
        sandbox_id: str,
        spec: SandboxSpec,
        channel: Channel,
        env: Mapping[str, str],
        keeper: Keeper,
        destroy: Callable[[], Coroutine[Any, Any, None]],
        refused_hosts: Set[str],
        folder: Path,
        renewal: Renewal | None = None,
        layer: Path | None = None,
        root: KeptRoot | None = None,
    ) -> None:
        """`destroy` removes all that was made for it; `refused_hosts` grows with what its commands ask for in vain.

        `folder` is what its driver keeps of it on this host. Without `renewal` it is used once. `layer` lies over
        its checkout. With `root`, which setup commands may write, it is for them.
        """
        super().__init__(channel, env)
        self.id = sandbox_id
        self._spec = spec
        self._base = spec.base
        index = index_of(spec.checkout) if spec.checkout is not None else None
        self._seed = self._first_seed = Seed(index) if index is not None and index.exists() else None
        self._keeper = keeper if renewal is None else renewal.keeper
        self._destroy = destroy
        self.refused_hosts = refused_hosts
        self.folder = folder
        self.root = root
        self._renewal = renewal
        self._layer = layer
        self._taken: tuple[str, Stamps, Patch] | None = None  # the last snapshot: of what base, and when
        self._closing: asyncio.Task[None] | None = None
        self._freezing = asyncio.Lock()  # the engine refuses to freeze what is frozen

    async def apply(self, diff: bytes, *, as_base: bool = False) -> None:
        if not diff:
            return
        base = await apply_to_tree(self._git_dir(), self._base, diff) if as_base else self._base
        seed = await self._seed_of(base) if as_base else self._seed
        if self._layer is not None:
            diff = await over_files(self._git_dir(), self._base, diff, self._layer)
        await (self._keeper.apply(self._git_dir(), diff) if self._spec.read_only else self.apply_inside(diff))
        self._base, self._seed = base, seed

    async def snapshot(self) -> Patch:
        """Frozen meanwhile: a command that swaps a file for a link while the host reads would have it read another.

        The last one again where nothing was touched since: git takes ten times as long to say so.
        """
        async with self._freezing:
            if self._taken and self._taken[:2] == (self._base, await self._keeper.stamps()):
                return self._taken[2]
            await self._keeper.freeze()
            try:
                stamps = await self._keeper.stamps()
                patch = await self._extract(None)
            finally:
                await self._keeper.thaw()
            self._taken = None if stamps is None else (self._base, stamps, patch)
            return patch

    async def patch(self, allowed: Callable[[str], bool]) -> Patch:
        await self.kill_all()
        patch = await self._extract(allowed)
        # Alive now is mounted all the while: had the container ended, every file would have read as deleted.
        await self.stat(WORKSPACE)
        return patch

    async def setup_files(self, target: Path) -> None:
        """Copy to `target` what setup commands wrote and git ignores; they have ended."""
        try:
            await self._keeper.setup_files(target)
        except OSError as error:
            message = f"What setup wrote to the workspace cannot be kept: {error.strerror}."
            raise full_disk(error) or LimitExceeded(message) from error

    async def assign(self, *, labels: Mapping[str, str], lifetime_s: int) -> None:
        await self.end_in(lifetime_s)
        await asyncio.to_thread(note_labels, self.folder, labels)

    async def renew(self, *, labels: Mapping[str, str]) -> None:
        if self._renewal is None:
            raise SandboxError("This sandbox can be used only once.")
        await self.kill_all()
        await self._renewal.renew()
        self._keeper = self._renewal.keeper
        self._base, self._seed, self._taken = self._spec.base, self._first_seed, None
        await self.stat(WORKSPACE)  # it lives
        await asyncio.to_thread(note_labels, self.folder, labels)

    async def close(self) -> None:
        """One task does it, however often it is asked for; a cancelled caller does not stop it half-way."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._destroy())
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _extract(self, allowed: Callable[[str], bool] | None) -> Patch:
        try:
            return await self._extracted(allowed, whole=False)
        except TreePartial:
            return await self._extracted(allowed, whole=True)

    async def _extracted(self, allowed: Callable[[str], bool] | None, *, whole: bool) -> Patch:
        git_dir, seed = self._git_dir(), self._seed
        async with self._keeper.view(git_dir, seed, whole=whole) as view:
            patch = await extract_patch(
                git_dir=git_dir,
                base=self._base,
                work_tree=view.work_tree,
                index_seed=seed and seed.index,
                touched=view.touched and seed and seed.seen_from_base(view.touched),
                partial=view.partial,
                hidden=view.hidden,
                allowed=allowed,
            )
        return replace(patch, warnings=(*patch.warnings, *view.warnings)) if view.warnings else patch

    async def _seed_of(self, base: str) -> Seed | None:
        checkout, target = self._spec.checkout, self.folder / BASE_INDEX
        if checkout is None or self._seed is None:
            return None
        index = index_of(checkout)
        return await seed_of(self._git_dir(), base, checkout_base=self._spec.base, checkout_index=index, target=target)

    def _git_dir(self) -> Path:
        if self._spec.git_dir is None or not self._base:
            raise SandboxError(
                "This sandbox was opened without a git directory and a base, which patches are made against."
            )
        return self._spec.git_dir
