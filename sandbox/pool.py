"""Sandboxes that stand ready before anybody asks: opened for those who want the same as somebody did before them.

A workspace cannot be put under a running container, so one that stands ready has its own over the repository's files
already, and is good for this repository and commit alone. It is given away whole, and never comes back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from repo.keeping import Allowance, Kept

from .base import Capabilities, Finding, Known, OnOutput, Sandbox, SandboxDriver, SandboxSpec, Setup
from .errors import SandboxError
from .watching import UNWATCHED, SandboxWatch

MAX_AGE_S = 600  # for as long, at most, an image that was made again is still opened as it was before
SPECS_KEPT = 4  # a worker rarely serves more repositories at a time, and each that stands idle takes some 8 MB
ANSWER_TIMEOUT_S = 5.0  # a millisecond on a machine that is not busy; opening another takes a second on one that is
# Tasks of one kind differ by seconds in the time that they have. What stands ready may live for whole hours, and hears
# the exact time when it is given away.
LIFETIME_STEP_S = 3600
WARM = {"pool": "warm"}


class Watch(Protocol):
    def warm_standing(self, count: int) -> None:
        """So many stand ready now."""
        ...

    def warm_asked(self, *, hit: bool) -> None:
        """Somebody asked for a sandbox that could have stood ready, and it did or did not."""
        ...


@dataclass(eq=False, slots=True)
class _Shelf:
    """What stands ready for those who want `spec`, the oldest first, and what ends each when it is too old."""

    spec: SandboxSpec
    items: dict[Sandbox, asyncio.TimerHandle] = field(default_factory=dict[Sandbox, asyncio.TimerHandle])
    filling: asyncio.Task[None] | None = None


class WarmPool:
    """See `SandboxDriver`: another one, which opens `size` sandboxes ahead for each of the specs last asked for.

    They belong to the driver's owner like all others, so that a reaper finds them. Labels cannot be changed on a
    container: until one is given away it has those of `WARM`, and then its driver knows it by its task's.
    """

    def __init__(
        self,
        driver: SandboxDriver,
        size: int,
        watch: Watch,
        *,
        max_age_s: int = MAX_AGE_S,
        openings: SandboxWatch = UNWATCHED,
    ) -> None:
        self.name = driver.name
        self._driver = driver
        self._size = size
        self._watch = watch
        self._openings = openings
        self._max_age_s = max_age_s
        self._shelves: list[_Shelf] = []  # the one that was used last comes last
        self._one_at_a_time = asyncio.Lock()  # or those who have a task would wait for a start behind ours
        self._background: set[asyncio.Task[None]] = set()

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """One that stands ready, or a fresh one; then, in the background, one for the next. With a network, always
        fresh: what may be reached is one task's own."""
        if spec.has_network:
            return await self._driver.open(spec)
        began_s = time.perf_counter()
        ready = await self._take(self._shelf(spec), spec)
        self._watch.warm_asked(hit=ready is not None)
        if ready is not None:
            self._openings.opened("warm", time.perf_counter() - began_s)
        sandbox = ready or await self._driver.open(spec)
        shelf = self._shelf(spec)
        if shelf.filling is None or shelf.filling.done():
            shelf.filling = self._in_background(partial(self._fill, shelf))
        return sandbox

    async def warm(self, spec: SandboxSpec) -> None:
        """Return when as many stand ready for `spec` as should. Raises what `open` would."""
        await self._fill(self._shelf(spec))

    async def check(self) -> str:
        return await self._driver.check()

    async def report(self) -> list[Finding]:
        return await self._driver.report()

    async def shell(self, sandbox_id: str, *, tty: bool) -> list[str]:
        return await self._driver.shell(sandbox_id, tty=tty)

    async def known(self) -> list[Known]:
        return await self._driver.known()

    async def require_image(self, image: str) -> str:
        return await self._driver.require_image(image)

    async def prepare_image(self, setup: Setup, on_output: OnOutput | None = None) -> str:
        return await self._driver.prepare_image(setup, on_output)

    async def setups(self) -> list[Kept]:
        return await self._driver.setups()

    async def collect(self, allowance: Allowance, *, now_s: float) -> list[Kept]:
        return await self._driver.collect(allowance, now_s=now_s)

    def capabilities(self) -> Capabilities:
        return self._driver.capabilities()

    async def reap(self, *, owner: str | None = None, now_s: float) -> list[str]:
        return await self._driver.reap(owner=owner, now_s=now_s)

    async def close(self) -> None:
        shelves, self._shelves = self._shelves, []
        for shelf in shelves:
            if shelf.filling is not None:
                shelf.filling.cancel()
            self._empty(shelf)
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._driver.close()

    def _shelf(self, spec: SandboxSpec) -> _Shelf:
        """The one for all who want the same; used now. Whose turn was the longest ago makes room for it."""
        hours = -(-spec.limits.lifetime_s // LIFETIME_STEP_S)
        lifetime_s = hours * LIFETIME_STEP_S + self._max_age_s
        wanted = replace(spec, labels=WARM, limits=replace(spec.limits, lifetime_s=lifetime_s))
        shelf = next((each for each in self._shelves if each.spec == wanted), None) or _Shelf(wanted)
        self._shelves = [*(each for each in self._shelves if each is not shelf), shelf]
        while len(self._shelves) > SPECS_KEPT:
            self._empty(self._shelves.pop(0))
        return shelf

    async def _take(self, shelf: _Shelf, spec: SandboxSpec) -> Sandbox | None:
        """The oldest that answers."""
        while shelf.items:
            sandbox = self._pop(shelf, next(iter(shelf.items)))
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    await sandbox.assign(labels=spec.labels, lifetime_s=spec.limits.lifetime_s)
            except BaseException as failure:
                self._in_background(sandbox.close)
                if not isinstance(failure, SandboxError | OSError):
                    raise
            else:
                return sandbox
        return None

    async def _fill(self, shelf: _Shelf) -> None:
        async with self._one_at_a_time:
            while shelf in self._shelves and len(shelf.items) < self._size:
                sandbox = await self._driver.open(shelf.spec)
                too_old = partial(self._drop, shelf, sandbox)
                shelf.items[sandbox] = asyncio.get_running_loop().call_later(self._max_age_s, too_old)
                self._count()
            if shelf not in self._shelves:  # it had to make room meanwhile
                self._empty(shelf)

    def _pop(self, shelf: _Shelf, sandbox: Sandbox) -> Sandbox:
        shelf.items.pop(sandbox).cancel()
        self._count()
        return sandbox

    def _drop(self, shelf: _Shelf, sandbox: Sandbox) -> None:
        """Another takes its place with the next use, if there is one."""
        self._in_background(self._pop(shelf, sandbox).close)

    def _empty(self, shelf: _Shelf) -> None:
        for sandbox in list(shelf.items):
            self._drop(shelf, sandbox)

    def _count(self) -> None:
        self._watch.warm_standing(sum(len(shelf.items) for shelf in self._shelves))

    def _in_background(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Kept until it is done. An error is not told: who opens a sandbox next has it too, and a task to tell it."""
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    with suppress(SandboxError, OSError):
        await work()
