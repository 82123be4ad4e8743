"""Workers as an operator keeps them: a number of places, each filled again as soon as its worker has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from .fleet import POOL, Fleet
from .processes import Nursery, Program
from .schedule import Fault, Kind

IDLE_WITHIN_S, LOOK_EVERY_S = 60.0, 0.05


class Crew:
    """As a context: with its end all are stopped, as soon as nothing is left to do."""

    def __init__(self, nursery: Nursery, fleet: Fleet, size: int, *, slots: int = 4, name: str = "w") -> None:
        self._nursery = nursery
        self._fleet = fleet
        self._slots = slots
        self._name = name
        self._stopping = False
        self._workers: dict[int, Program] = {}
        self._places = [asyncio.create_task(self._fill(place)) for place in range(size)]
        self._whole = asyncio.Event()
        self.started = 0  # over all lives

    def __getitem__(self, place: int) -> Program:
        return self._workers[place]

    def named(self, worker: str) -> Program:
        """The worker whose first life has this name."""
        return next(program for place, program in self._workers.items() if worker == f"{self._name}{place}.1")

    @property
    def workers(self) -> list[Program]:
        return list(self._workers.values())

    async def whole(self) -> None:
        """Wait until every place has a worker that serves."""
        while len(self._workers) < len(self._places):
            self._whole.clear()
            await self._whole.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_exc: object) -> None:
        try:
            if kind is None:
                await self._idle()
        finally:
            await self.stop()

    async def _idle(self) -> None:
        """A child whose parent has ended may run for a moment still: for a lease, if its worker was killed.

        A task that never ends is found in the history.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_WITHIN_S), self._fleet.connected() as transport:
                while any(pool.ready or pool.running for pool in await transport.stats([POOL])):
                    await asyncio.sleep(LOOK_EVERY_S)

    async def stop(self) -> None:
        """Paused ones go on, all drain."""
        self._stopping = True
        for worker in self.workers:
            worker.resume()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await asyncio.gather(*self._places)

    async def _fill(self, place: int) -> None:
        life = 0
        while not self._stopping:
            life += 1
            worker = await self._nursery.start("worker", f"{self._name}{place}.{life}", self._fleet, slots=self._slots)
            if await worker.is_ready():
                self._workers[place] = worker
                self.started += 1
                self._whole.set()
                if self._stopping:
                    worker.terminate()
                await worker.ended.wait()
                del self._workers[place]
            worker.kill()  # one that never became ready is not to outlive the crew


async def strike(crew: Crew, faults: Iterable[Fault], for_s: float, *, rest_s: float = 0.0) -> int:
    """One fault after the other, as fast as workers can be started again, or with rests; how many there were."""
    until_s, count = asyncio.get_running_loop().time() + for_s, 0
    async with asyncio.TaskGroup() as pauses:
        for fault in faults:
            await asyncio.sleep(rest_s)
            await crew.whole()
            if asyncio.get_running_loop().time() >= until_s:
                break
            count += 1
            worker = crew[fault.place]
            if fault.kind is Kind.KILL:
                worker.kill()
                await worker.ended.wait()
            elif fault.kind is Kind.TERMINATE:
                worker.terminate()
            else:
                pauses.create_task(_pause(worker, fault.for_s))
    return count


async def _pause(worker: Program, for_s: float) -> None:
    worker.pause()
    await asyncio.sleep(for_s)
    worker.resume()
