"""Open a sandbox on an engine that sees no file of this host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..base import Finding
from ..card import Card
from ..channel import Channel
from ..container import WORKSPACE_SHARE, WRITER, Opening, Stocked
from ..docker import Holder
from ..egress import EgressProxy
from ..errors import PathError
from ..opened import OpenSandbox
from ..setup_root import open_root
from ..tools import ToolClient
from ..uids import AGENT_GID, AGENT_UID
from ..workspace import create_folder, remove_workspace
from .exits import open_exits
from .keeper import Inside
from .probe import Placement
from .stock import Base, Stock

FILL_TIMEOUT_S = 600.0  # 1 s for 20,000 files; gigabytes from a slow disk
WRITER_LIFETIME_S = 900

Start = Callable[[Opening, AsyncExitStack], Coroutine[Any, Any, Channel]]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`start` makes a container and waits until its tool server listens."""

    stock: Stock
    placement: Placement
    start: Start

    async def assemble(
        self, opening: Opening, card: Card, proxy: EgressProxy, ca_bundle: Path | None, undo: AsyncExitStack
    ) -> OpenSandbox:
        """A sandbox that runs, its workspace filled. `undo` takes away what was made so far, also after a failure."""
        sandbox_id, spec, folder = opening.sandbox_id, opening.spec, opening.workspace.folder
        await asyncio.to_thread(create_folder, opening.workspace, card)
        undo.push_async_callback(asyncio.to_thread, remove_workspace, folder)
        # While it is filled, nothing else has the sandbox's name, by which reapers know that it is at work.
        holder = Holder(sandbox_id, spec.image, opening.labels)
        layer = opening.workspace.layer
        tools, base = await self.stock.tools(holder), await self.stock.base(spec.checkout, layer, holder)
        opening = replace(opening, stocked=self._stocked(tools, base))
        kept = None
        if opening.root is not None:
            first = self.placement
            root = replace(opening.root, first_uid=first.first_uid, first_gid=first.first_gid)
            opening = replace(opening, root=root)
            kept = await open_root(self.stock.engine, opening, self.start, undo)
        channel = await self.start(opening, undo)
        if base.volume is not None:
            await self._fill(opening, channel, base, holder)
        env = await open_exits(proxy, opening.workspace.egress, channel, ca_bundle, undo) if spec.has_network else {}
        keeper = Inside(channel, spec.checkout, partial(self._writer_tools, opening))
        destroy, refused = undo.aclose, proxy.refused
        return OpenSandbox(sandbox_id, spec, channel, env, keeper, destroy, refused, folder, layer=layer, root=kept)

    def report(self) -> list[Finding]:
        how = f"in memory of the engine's host, because {self.placement.why_elsewhere}"
        cost = "for 20,000 files half a second of CPU and 0.1 GiB more each than an overlay"
        quota = f"by size and files, within 1/{WORKSPACE_SHARE} of a sandbox's memory"
        return [Finding("workspaces", f"{how}: {cost}"), Finding("quota", quota)]

    def _stocked(self, tools: str, base: Base) -> Stocked:
        return Stocked(
            tools,
            base.volume,
            base.packed.laid_out_bytes,
            base.packed.files,
            self.placement.first_uid + AGENT_UID,
            self.placement.first_gid + AGENT_GID,
        )

    async def _fill(self, opening: Opening, channel: Channel, base: Base, holder: Holder) -> None:
        if not opening.spec.read_only:
            await self._lay_out(opening, channel, base, holder)
            return
        async with self._writer(opening) as writer:
            await self._lay_out(opening, writer, base, holder)
        await channel.call("remember", {}, timeout_s=FILL_TIMEOUT_S, max_bytes=0)

    async def _lay_out(self, opening: Opening, channel: Channel, base: Base, holder: Holder) -> None:
        arguments = {"bytes": base.packed.pack_bytes}
        try:
            await channel.call("fill", arguments, timeout_s=FILL_TIMEOUT_S, max_bytes=0)
        except PathError:  # who brought it there died half-way, which is seen before anything is laid out
            again = replace(holder, name=f"{holder.name}{WRITER}")
            await self.stock.base(opening.spec.checkout, opening.workspace.layer, again, again=True)
            await channel.call("fill", arguments, timeout_s=FILL_TIMEOUT_S, max_bytes=0)

    @asynccontextmanager
    async def _writer(self, opening: Opening) -> AsyncGenerator[Channel]:
        """A second container with the sandbox's workspace, which may be written there. No task's command runs in it."""
        assert opening.stocked is not None
        limits = replace(opening.spec.limits, lifetime_s=WRITER_LIFETIME_S)
        spec = replace(opening.spec, read_only=False, egress=frozenset[str](), limits=limits)
        stocked = replace(opening.stocked, writer_of=opening.sandbox_id)
        name = f"{opening.sandbox_id}{WRITER}"
        async with AsyncExitStack() as undo:
            yield await self.start(replace(opening, sandbox_id=name, spec=spec, stocked=stocked), undo)

    @asynccontextmanager
    async def _writer_tools(self, opening: Opening) -> AsyncGenerator[ToolClient]:
        async with self._writer(opening) as channel:
            yield ToolClient(channel, opening.spec.env)
