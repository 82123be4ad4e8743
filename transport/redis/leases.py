"""Lease renewal on an event loop of its own, in a thread of its own: the worker's loop may be busy for a minute."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from envelope.logs import get_logger

from ..base import Lease, Renewal
from ..errors import TransportError, Unreachable
from .cell import Cell
from .cells import Cells
from .listening import Listener, by_client

T = TypeVar("T")

_log = get_logger("leases")


class RedisKeeper:
    """See `LeaseKeeper`. May be called in any thread, also in one whose own event loop runs."""

    def __init__(self, cells: Cells) -> None:
        """`cells` must be the keeper's own: connections belong to the loop that uses them."""
        self._cells = cells
        self._listeners: dict[str, Listener] = {}
        self._unheard: set[Cell] = set()
        self._renewing: dict[Cell, asyncio.Future[Renewal]] = {}  # what each cell has still to answer, or to be read
        self._interrupted, self._closed = asyncio.Event(), asyncio.Event()
        self._late = asyncio.Event()  # a cell has answered that nobody waited for any more
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="lease keeper", daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._closed.wait()
        for listener in self._listeners.values():
            listener.close()
        await self._give_up()
        await self._cells.servers.close()

    # -- called by the worker's keeper thread

    def wait(self, worker: str, timeout_s: float) -> None:
        self._do(self._wait(worker, timeout_s))

    def renew(self, leases: Sequence[Lease]) -> Renewal:
        """`Unreachable` when no cell that has some of them answers, or when it was interrupted."""
        return self._do(self._renew(leases)) if leases else Renewal()

    def interrupt(self) -> None:
        """Needs no server; ends a renewal, too, that waits for one which is gone."""
        self._loop.call_soon_threadsafe(self._interrupted.set)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closed.set)
            self._thread.join()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- on the keeper's own loop

    async def _wait(self, worker: str, timeout_s: float) -> None:
        if worker not in self._listeners:
            self._listeners[worker] = Listener(by_client(self._cells.all, "wake", worker), shared=False)
        interrupted, late = (asyncio.ensure_future(event.wait()) for event in (self._interrupted, self._late))
        either = asyncio.ensure_future(asyncio.wait({interrupted, late}, return_when=asyncio.FIRST_COMPLETED))
        try:
            await self._listeners[worker].wait(timeout_s, until=either)
        finally:
            either.cancel()
            late.cancel()
            self._clear(interrupted)

    async def _renew(self, leases: Sequence[Lease]) -> Renewal:
        renewing = asyncio.ensure_future(self._renew_all(leases))
        interrupted = asyncio.ensure_future(self._interrupted.wait())
        try:
            await asyncio.wait({renewing, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if not renewing.done():
                raise Unreachable("the renewal was interrupted before a Redis server answered")
            return renewing.result()
        finally:
            renewing.cancel()
            if interrupted.done():
                await self._give_up()
            self._clear(interrupted)

    def _clear(self, interrupted: asyncio.Future[Any]) -> None:
        """An interrupt ends one call: the one under way, else the next."""
        if interrupted.done():
            self._interrupted.clear()
        interrupted.cancel()

    async def _renew_all(self, leases: Sequence[Lease]) -> Renewal:
        """A cell that does not answer must not cost the leases in the others, nor keep their news: its own is told by
        the next renewal after it has answered."""
        by_cell: dict[Cell, list[Lease]] = {}
        for lease in leases:
            by_cell.setdefault(self._cells.of_trace(lease.trace_id), []).append(lease)
        for cell, share in by_cell.items():
            if cell not in self._renewing:
                self._renewing[cell] = renewing = asyncio.ensure_future(self._renew_in(cell, share))
                renewing.add_done_callback(self._hear)
        renewals: list[Renewal] = []
        failures: list[BaseException] = []
        while self._renewing:
            patience_s = self._cells.patience_s if renewals else None
            await asyncio.wait(self._renewing.values(), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            ended = {cell: answer for cell, answer in self._renewing.items() if answer.done()}
            if not ended:
                break
            for cell, answer in ended.items():
                del self._renewing[cell]
                if failure := answer.exception():
                    failures.append(failure)
                else:
                    renewals.append(answer.result())
        self._late.clear()  # what came is told now
        for failure in failures:
            if not renewals or not isinstance(failure, TransportError):
                raise failure
            _log.warning("cell_not_renewed", error=failure.message)
        return _together(renewals)

    def _hear(self, answer: asyncio.Future[Renewal]) -> None:
        if not answer.cancelled() and not answer.exception():
            self._late.set()

    async def _give_up(self) -> None:
        for renewing in self._renewing.values():
            renewing.cancel()
        await asyncio.gather(*self._renewing.values(), return_exceptions=True)
        self._renewing.clear()

    async def _renew_in(self, cell: Cell, leases: Sequence[Lease]) -> Renewal:
        """After an answer that never came nothing is renewed until the server was heard again: a network that loses
        every answer must not keep leases alive for a worker that can write nothing under them."""
        if cell in self._unheard:
            await cell.client.call("PING")
        self._unheard.add(cell)
        renewal = await _renew(cell, leases)
        self._unheard.discard(cell)
        return renewal


async def _renew(cell: Cell, leases: Sequence[Lease]) -> Renewal:
    rows = [[lease.task_id, lease.attempt, lease.worker] for lease in leases]
    answer: list[Any] = await cell.run("renew", repeatable=True, leases=rows, missed_ms=cell.client.missed_ms())
    lost, cancelled, expired = cast(list[list[bytes]], answer[:3])
    texts = [text.decode() for text in cancelled]
    return Renewal(
        lost=frozenset(task.decode() for task in lost),
        cancelled=dict(zip(texts[::2], texts[1::2], strict=True)),
        expired=frozenset(task.decode() for task in expired),
        due_ms=answer[3] if answer[3] >= 0 else None,
    )


def _together(renewals: Sequence[Renewal]) -> Renewal:
    return Renewal(
        lost=frozenset[str]().union(*(renewal.lost for renewal in renewals)),
        cancelled={task: why for renewal in renewals for task, why in renewal.cancelled.items()},
        expired=frozenset[str]().union(*(renewal.expired for renewal in renewals)),
        due_ms=min((renewal.due_ms for renewal in renewals if renewal.due_ms is not None), default=None),
    )
