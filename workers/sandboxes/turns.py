"""Where a task gets its sandbox: one of its own, one that shards take turns in, or one of its own behind a reader.

Agents read at shared readers (see `sandbox/readers.py`) until they need a sandbox, which is theirs alone.

Recipe shards of one batch take turns: each finds what a fresh one would have. Only shards of the same tenant, batch,
repository, commit, image and limits meet in one, one after another, and none with a network or with attachments. What
the sandbox cannot put back (see `sandbox/renewal.py`) is closed, and so is one that nobody wants for a while. Agents,
and the gate that proves a change, never get one that was used before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from envelope.logs import get_logger
from envelope.messages import TaskRequest
from sandbox.base import Sandbox, SandboxDriver, SandboxSpec
from sandbox.errors import DiskFull, EngineUnavailable, ImageMissing, SandboxError, Unsupported
from sandbox.readers import Readers

from ..agents.base import Agent

IDLE_S = 10.0  # the next shard of a batch that goes on comes within milliseconds
ANSWER_TIMEOUT_S = 5.0
STOPPING_S = 60.0  # within which all shards of a batch that is being stopped have ended
# Shards differ by seconds in the time that they have. One that is used for long lives for whole hours.
LIFETIME_STEP_S = 3600

log = get_logger("turns")

Batch = tuple[str, str]  # its tenant, and its id


class Lender(Protocol):
    """Where a task has its sandbox from, and where it goes back to."""

    async def open(self, spec: SandboxSpec, own_opened: Callable[[], None]) -> Sandbox:
        """`own_opened` is called when the task has a sandbox of its own: now, or at the first call that needs one."""
        ...

    async def give_back(self, sandbox: Sandbox, *, stopped: bool) -> None:
        """The task is over, or was `stopped`. It may not be used by it any more."""
        ...


@dataclass(frozen=True, slots=True)
class Single:
    """Each task has one of its own, which ends with it."""

    driver: SandboxDriver

    async def open(self, spec: SandboxSpec, own_opened: Callable[[], None]) -> Sandbox:
        sandbox = await self.driver.open(spec)
        own_opened()
        return sandbox

    async def give_back(self, sandbox: Sandbox, *, stopped: bool) -> None:
        await sandbox.close()


@dataclass(frozen=True, slots=True)
class _Reads:
    """Each task reads at a reader of its tenant's until it needs one of its own, which ends with it."""

    readers: Readers
    tenant: str

    async def open(self, spec: SandboxSpec, own_opened: Callable[[], None]) -> Sandbox:
        return await self.readers.open(spec, tenant=self.tenant, own_opened=own_opened)

    async def give_back(self, sandbox: Sandbox, *, stopped: bool) -> None:
        await sandbox.close()


@dataclass(eq=False, slots=True)
class _Seat:
    """`batch` is whose shards may sit here."""

    batch: Batch
    spec: SandboxSpec
    ends_at_s: float
    sandbox: Sandbox


@dataclass(eq=False)
class Turns:
    """Not `enabled`: each task has a sandbox of its own from the first call on, also to read."""

    driver: SandboxDriver
    enabled: bool
    idle_s: float = IDLE_S
    can_renew: bool = field(default=True, init=False)  # can this engine put a sandbox back to its start, for shards?
    readers: Readers = field(init=False)
    _free: dict[_Seat, asyncio.TimerHandle] = field(default_factory=dict[_Seat, asyncio.TimerHandle])
    _taken: dict[Sandbox, _Seat] = field(default_factory=dict[Sandbox, _Seat])
    _background: dict[asyncio.Task[None], Batch] = field(default_factory=dict[asyncio.Task[None], Batch])
    _stopped: set[Batch] = field(default_factory=set[Batch])

    def __post_init__(self) -> None:
        self.readers = Readers(self.driver)

    def lender(self, request: TaskRequest, agent: Agent) -> Lender:
        if not self.enabled or request.attachments:
            return Single(self.driver)
        if agent.mode != "recipe":
            return _Reads(self.readers, request.tenant)
        if not self.can_renew or not request.batch_id or not agent.returns_patch:
            return Single(self.driver)
        return _Turn(self, (request.tenant, request.batch_id))

    async def take(self, batch: Batch, spec: SandboxSpec) -> Sandbox:
        """One that a task of the batch has left, brought back to its start, or a fresh one: with a network, always."""
        if spec.has_network or spec.read_only:
            return await self.driver.open(spec)
        until_s = time.monotonic() + spec.limits.lifetime_s
        hours = -(-spec.limits.lifetime_s // LIFETIME_STEP_S)
        wanted = replace(
            spec, labels={}, reusable=True, limits=replace(spec.limits, lifetime_s=hours * LIFETIME_STEP_S)
        )
        for seat in [each for each in self._free if (each.batch, each.spec) == (batch, wanted)]:
            # Looked at anew: while another was asked, somebody may have taken it, or it went.
            if seat.ends_at_s >= until_s and seat in self._free and await self._answers(seat, spec):
                return seat.sandbox
        return await self._fresh(batch, wanted, spec)

    async def give_back(self, sandbox: Sandbox) -> None:
        """Brought back to its start in the background: the task's result need not wait for that."""
        seat = self._taken.pop(sandbox, None)
        if seat is None:
            await sandbox.close()
        else:
            self._do(self._renewed(seat), seat.batch)

    async def stop(self, batch: Batch, sandbox: Sandbox) -> None:
        """Close it, and what else the batch has here: who waits for the end of a stopped batch must find none of it."""
        self._taken.pop(sandbox, None)
        self._stopped.add(batch)  # what is brought back to its start just now is closed afterwards
        asyncio.get_running_loop().call_later(STOPPING_S, self._stopped.discard, batch)
        for seat in [each for each in self._free if each.batch == batch]:
            self._free[seat].cancel()
            self._drop(seat)
        under_way = [task for task, whose in self._background.items() if whose == batch]
        await asyncio.gather(sandbox.close(), *under_way)

    async def _fresh(self, batch: Batch, wanted: SandboxSpec, spec: SandboxSpec) -> Sandbox:
        ends_at_s = time.monotonic() + wanted.limits.lifetime_s
        try:
            sandbox = await self.driver.open(replace(wanted, labels=spec.labels))
        except (EngineUnavailable, ImageMissing, DiskFull):  # these pass, or are told
            raise
        except SandboxError as error:
            sandbox = await self.driver.open(spec)  # which fails like it, unless it was the renewal's
            self.can_renew = self.can_renew and not isinstance(error, Unsupported)
            log.warning("sandbox_not_shared", error=str(error), others=self.can_renew)
            return sandbox
        self._taken[sandbox] = _Seat(batch, wanted, ends_at_s, sandbox)
        return sandbox

    async def _answers(self, seat: _Seat, spec: SandboxSpec) -> bool:
        self._free.pop(seat).cancel()
        lifetime_s = round(seat.ends_at_s - time.monotonic())
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await seat.sandbox.assign(labels=spec.labels, lifetime_s=lifetime_s)
        except BaseException as failure:
            self._do(_closed(seat.sandbox), seat.batch)
            if not isinstance(failure, SandboxError | OSError):
                raise
            return False
        self._taken[seat.sandbox] = seat
        return True

    async def _renewed(self, seat: _Seat) -> None:
        try:
            await seat.sandbox.renew(labels={"batch": seat.batch[1]})
        except Exception as failure:  # whatever it is: nobody waits for this task, and it alone still knows the sandbox
            log.info("sandbox_not_renewed", sandbox=seat.sandbox.id, error=repr(failure))
            await _closed(seat.sandbox)
        else:
            if seat.batch in self._stopped:
                await _closed(seat.sandbox)
                return
            self._free[seat] = asyncio.get_running_loop().call_later(self.idle_s, self._drop, seat)

    def _drop(self, seat: _Seat) -> None:
        del self._free[seat]
        self._do(_closed(seat.sandbox), seat.batch)

    def _do(self, work: Coroutine[Any, Any, None], batch: Batch) -> None:
        task = asyncio.create_task(work)
        self._background[task] = batch
        task.add_done_callback(self._background.pop)


@dataclass(frozen=True, slots=True)
class _Turn:
    turns: Turns
    batch: Batch

    async def open(self, spec: SandboxSpec, own_opened: Callable[[], None]) -> Sandbox:
        sandbox = await self.turns.take(self.batch, spec)
        own_opened()
        return sandbox

    async def give_back(self, sandbox: Sandbox, *, stopped: bool) -> None:
        await (self.turns.stop(self.batch, sandbox) if stopped else self.turns.give_back(sandbox))


async def _closed(sandbox: Sandbox) -> None:
    """What cannot be removed now is the reaper's."""
    with suppress(SandboxError, OSError):
        await sandbox.close()
