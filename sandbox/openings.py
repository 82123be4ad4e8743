"""The sandboxes of one driver, from the moment that they begin to open until they are gone."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Set
from contextlib import AsyncExitStack, suppress
from typing import Any

from .errors import SandboxError
from .opened import OpenSandbox
from .unfit import full_disk
from .watching import UNWATCHED, SandboxWatch

# Makes the sandbox of an id, and pushes onto the stack, step by step, what undoes it.
Assemble = Callable[[str, AsyncExitStack], Awaitable[OpenSandbox]]


class Openings:
    """Keeps count, so that nothing is left behind when an opening fails, is cancelled, or a driver is closed."""

    def __init__(self, watch: SandboxWatch = UNWATCHED) -> None:
        self._watch = watch
        self._open: dict[str, OpenSandbox | None] = {}  # None while it opens
        self._background: set[asyncio.Task[None]] = set()

    @property
    def ids(self) -> Set[str]:
        return self._open.keys()

    async def open(self, assemble: Assemble) -> OpenSandbox:
        opening = asyncio.create_task(self._whole(assemble))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # A request to an engine cannot be taken back: a container that it made after us would have no owner.
            await asyncio.shield(self.in_background(_discard(opening)))
            raise

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Kept until it is done: `close` waits for it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> list[BaseException]:
        """Close every open sandbox; what went wrong with some, after all were tried."""
        closings = [sandbox.close() for sandbox in self._open.values() if sandbox is not None]
        outcomes = await asyncio.gather(*closings, *self._background, return_exceptions=True)
        return [outcome for outcome in outcomes if outcome is not None]

    async def _whole(self, assemble: Assemble) -> OpenSandbox:
        began_s = time.perf_counter()
        sandbox_id = f"muster-{uuid.uuid4().hex}"
        self._open[sandbox_id] = None
        undo = AsyncExitStack()
        undo.callback(self._open.pop, sandbox_id, None)
        try:
            sandbox = self._open[sandbox_id] = await assemble(sandbox_id, undo)
        except BaseException as error:
            await undo.aclose()
            if full := full_disk(error):
                raise full from error
            raise
        sandbox.watch = self._watch
        self._watch.opened("cold", time.perf_counter() - began_s)
        return sandbox


async def _discard(opening: asyncio.Task[OpenSandbox]) -> None:
    with suppress(SandboxError):  # an opening that failed has cleaned up behind itself
        sandbox = await opening
        await sandbox.close()
