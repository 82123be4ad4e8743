"""Readers: sandboxes that only look, each shared by whoever starts from the same checkout.

An agent mostly reads, and what it reads before its first command or write stands in its checkout as in everybody's. So
one read-only sandbox, in which the tool server and its searches run and never a command of anybody's, reads for many.
One's own opens with the first call that needs it, and has every call from then on. What a sandbox has beside the
checkout (`/tmp`, `/proc`, a home) is read in one's own alone. A reader that is lost loses nothing: each call goes to
another reader once, and then to one's own sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from repo.fairness import FairSemaphore
from repo.patch import Patch

from .base import (
    MIB,
    WORKSPACE,
    Command,
    ExecResult,
    FileStat,
    GrepMatch,
    Job,
    Limits,
    OnOutput,
    Sandbox,
    SandboxDriver,
    SandboxSpec,
    Service,
)
from .errors import SandboxError, SandboxLost

IDLE_S = 10.0  # the next task of a fan-out comes within milliseconds
MAX_SEATS = 32  # whoever breaks a reader disturbs no more than so many
LIFETIME_S = 3600
SPARE_S = 300  # nobody begins with one that will end so soon
SEARCHES_PER_CORE = 2  # at once, of all readers of a worker: each keeps a core busy
SEARCH_TIMEOUT_S = 5.0  # at a reader: what takes longer goes on in one's own sandbox, with its own share of the cores
MAX_RESOLVED = 10_000  # paths of which a reader remembers where they lead: its checkout does not change

CLOSED = "The sandbox was closed."

log = logging.getLogger("muster.readers")

T = TypeVar("T")
Call = Callable[[Sandbox], Awaitable[T]]


@dataclass(eq=False)
class _Reader:
    """Only tasks of the `tenant` may sit here; `resolved` has where paths lead."""

    tenant: str
    spec: SandboxSpec
    ends_at_s: float
    opening: asyncio.Task[Sandbox]
    seats: int = 0
    closing: asyncio.TimerHandle | None = None
    resolved: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def has_failed(self) -> bool:
        return self.opening.done() and (self.opening.cancelled() or self.opening.exception() is not None)


class Readers:
    """Those of one worker, over a driver."""

    def __init__(self, driver: SandboxDriver, *, idle_s: float = IDLE_S) -> None:
        self._driver = driver
        self._idle_s = idle_s
        self._readers: list[_Reader] = []
        self._background: set[asyncio.Task[None]] = set()
        self.searches = FairSemaphore(SEARCHES_PER_CORE * (os.cpu_count() or 1))

    async def open(self, spec: SandboxSpec, *, tenant: str, own_opened: Callable[[], None] = lambda: None) -> Sandbox:
        """As a driver's: a sandbox that opens with the first call for which no reader will do.

        Tasks of one tenant share readers. `own_opened` is called when one's own has opened. A spec without a checkout
        is opened at once.
        """
        if spec.checkout is None:
            sandbox = await self._driver.open(spec)
            own_opened()
            return sandbox
        limits = Limits(lifetime_s=LIFETIME_S)
        reads = SandboxSpec(
            spec.image, spec.checkout, spec.git_dir, spec.base, read_only=True, limits=limits, env=spec.env
        )
        return LazySandbox(_Seat(self, tenant, reads), lambda: self._driver.open(spec), own_opened)

    def take(self, tenant: str, spec: SandboxSpec) -> _Reader:
        reader = self._free(tenant, spec) or self._fresh(tenant, spec)
        reader.seats += 1
        if reader.closing is not None:
            reader.closing.cancel()
            reader.closing = None
        return reader

    def leave(self, reader: _Reader, *, is_lost: bool = False) -> None:
        """Nobody begins with a lost one; it is closed once nobody sits there any more."""
        reader.seats -= 1
        is_lost = is_lost or reader.has_failed
        if is_lost:
            self._forget(reader)
        if reader.seats:
            return
        if not reader.opening.done():  # its driver undoes what it has begun
            self._forget(reader)
            reader.opening.cancel()
        elif reader in self._readers:
            reader.closing = asyncio.get_running_loop().call_later(self._idle_s, self._close, reader)
        else:
            self._close(reader)

    def _free(self, tenant: str, spec: SandboxSpec) -> _Reader | None:
        until_s = time.monotonic() + SPARE_S
        return next(
            (
                each
                for each in self._readers
                if (each.tenant, each.spec) == (tenant, spec)
                and each.seats < MAX_SEATS
                and each.ends_at_s > until_s
                and not each.has_failed
            ),
            None,
        )

    def _fresh(self, tenant: str, spec: SandboxSpec) -> _Reader:
        opening = asyncio.create_task(self._driver.open(replace(spec, labels={"reader": "shared"})))
        reader = _Reader(tenant, spec, time.monotonic() + LIFETIME_S, opening)
        self._readers.append(reader)
        return reader

    def _close(self, reader: _Reader) -> None:
        self._forget(reader)
        task = asyncio.create_task(_closed(reader))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _forget(self, reader: _Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)


class _Seat:
    """A place at a reader, taken with the first call."""

    def __init__(self, readers: Readers, tenant: str, spec: SandboxSpec) -> None:
        self._readers = readers
        self._tenant = tenant
        self._spec = spec
        self._reader: _Reader | None = None
        self.is_closed = False

    async def ask(self, call: Call[T]) -> T:
        """`SandboxLost` when two readers were lost meanwhile."""
        try:
            return await self._asked(call)
        except SandboxLost as lost:
            log.warning("a reader is lost: %s", lost)
        return await self._asked(call)

    async def search(self, call: Call[T]) -> T:
        """`TimeoutError` for one that takes too long."""
        async with self._readers.searches.turn(self._tenant), asyncio.timeout(SEARCH_TIMEOUT_S):
            return await self.ask(call)

    async def resolve(self, path: str) -> str:
        """Where a path leads, links followed; asked once for all who sit here."""
        resolved = self._taken().resolved
        if path not in resolved:
            if len(resolved) >= MAX_RESOLVED:
                resolved.clear()
            resolved[path] = await self.ask(lambda sandbox: sandbox.resolve(path))
        return resolved[path]

    def leave(self, *, is_lost: bool = False) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            self._readers.leave(reader, is_lost=is_lost)

    def close(self) -> None:
        self.is_closed = True
        self.leave()

    async def _asked(self, call: Call[T]) -> T:
        reader = self._taken()
        try:
            return await call(await asyncio.shield(reader.opening))
        except SandboxError as error:
            is_lost = isinstance(error, SandboxLost) or reader.has_failed
            if is_lost and reader is self._reader:  # else another call of the same task has left it already
                self.leave(is_lost=True)
            raise
        except asyncio.CancelledError as cancelled:
            if reader.opening.cancelled():  # not this call is, but its task was closed
                raise SandboxLost(CLOSED) from cancelled
            raise

    def _taken(self) -> _Reader:
        if self.is_closed:
            raise SandboxLost(CLOSED)
        if self._reader is None:
            self._reader = self._readers.take(self._tenant, self._spec)
        return self._reader


class LazySandbox:
    """See `Sandbox`: it reads at a reader, until it has to be opened."""

    def __init__(self, seat: _Seat, open_own: Callable[[], Awaitable[Sandbox]], own_opened: Callable[[], None]) -> None:
        self.own: Sandbox | None = None  # once it is open
        self._seat = seat
        self._open_own = open_own
        self._own_opened = own_opened
        self._opening = asyncio.Lock()
        self._reading = 0  # calls that are at a reader

    @property
    def id(self) -> str:
        return self.own.id if self.own else "not opened"

    async def read(self, path: str, *, offset_bytes: int = 0, max_bytes: int = 10 * MIB) -> bytes:
        return await self._look(path, lambda at: at.read(path, offset_bytes=offset_bytes, max_bytes=max_bytes))

    async def stat(self, path: str) -> FileStat:
        return await self._look(path, lambda at: at.stat(path))

    async def resolve(self, path: str) -> str:
        # a reader has said it already, when it was asked whether the path is inside
        return await self._look(path, lambda at: at.resolve(path) if at is self.own else self._seat.resolve(path))

    async def list(self, path: str, *, limit: int = 1000) -> list[FileStat]:
        return await self._look(path, lambda at: at.list(path, limit=limit))

    async def glob(self, pattern: str, path: str = WORKSPACE, *, limit: int = 100) -> tuple[list[str], bool]:
        return await self._look(path, lambda at: at.glob(pattern, path, limit=limit), is_search=True)

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, include: str | None = None, limit: int = 100
    ) -> tuple[list[GrepMatch], bool]:
        return await self._look(path, lambda at: at.grep(pattern, path, include=include, limit=limit), is_search=True)

    async def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        return await (await self._opened()).exec(command, on_output)

    async def spawn(self, command: Command) -> Job:
        return await (await self._opened()).spawn(command)

    async def start(
        self, command: Sequence[str], *, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> Service:
        return await (await self._opened()).start(command, cwd=cwd, env=env)

    async def write(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        await (await self._opened()).write(path, content, mode=mode)

    async def kill_all(self) -> None:
        if self.own is not None:
            await self.own.kill_all()

    async def apply(self, diff: bytes, *, as_base: bool = False) -> None:
        if diff:
            await (await self._opened()).apply(diff, as_base=as_base)

    async def snapshot(self) -> Patch:
        return await (await self._opened()).snapshot()

    async def patch(self, allowed: Callable[[str], bool]) -> Patch:
        return await (await self._opened()).patch(allowed)

    async def assign(self, *, labels: Mapping[str, str], lifetime_s: int) -> None:
        await (await self._opened()).assign(labels=labels, lifetime_s=lifetime_s)

    async def renew(self, *, labels: Mapping[str, str]) -> None:
        await (await self._opened()).renew(labels=labels)

    async def close(self) -> None:
        self._seat.close()
        async with self._opening:  # what opens just now is closed, too
            if self.own is not None:
                await self.own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _look(self, path: str, call: Call[T], *, is_search: bool = False) -> T:
        if self.own is None and not self._seat.is_closed:
            self._reading += 1
            try:
                if _is_inside(posixpath.normpath(path)) and _is_inside(await self._seat.resolve(path)):
                    return await (self._seat.search(call) if is_search else self._seat.ask(call))
            except SandboxLost as lost:
                log.warning("two readers are lost, and what broke them goes on alone: %s", lost)
            except TimeoutError:
                log.info("a search takes long, and goes on alone")
            finally:
                self._reading -= 1
                self._leave_when_done()
        return await call(await self._opened())

    async def _opened(self) -> Sandbox:
        async with self._opening:
            if self._seat.is_closed and self.own is None:
                raise SandboxLost(CLOSED)
            if self.own is None:
                self.own = await self._open_own()
                self._own_opened()
                self._leave_when_done()
            return self.own

    def _leave_when_done(self) -> None:
        if self.own is not None and not self._reading:
            self._seat.leave()


def _is_inside(path: str) -> bool:
    return path == WORKSPACE or path.startswith(f"{WORKSPACE}/")


async def _closed(reader: _Reader) -> None:
    """What cannot be removed now is the reaper's."""
    with suppress(SandboxError, OSError):
        await (await reader.opening).close()
