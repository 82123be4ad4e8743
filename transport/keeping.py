"""The thread that keeps a worker's leases while its event loop is busy, and lets them go when the loop is wedged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from envelope.logs import get_logger

from .base import Lease, LeaseKeeper, Renewal
from .errors import TransportError

# A loop that was busy for a while (a large patch, a slow disk) is not dead; after two minutes nobody is helped by it.
WEDGED_AFTER_S = 120.0
RETRY_S = 1.0
# Deadlines that follow each other closely are looked at together.
SHORTEST_S = 0.02

_log = get_logger("keeper")


class KeeperThread:
    """Renews every `every_s`, when a deadline passes, and at once when a task of this worker is cancelled.

    `leases` is called in the thread and must give a snapshot; `on_news` is called on the event loop, with the leases
    that were asked about and what became of them.
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        *,
        worker: str,
        every_s: float,
        leases: Callable[[], Sequence[Lease]],
        on_news: Callable[[Sequence[Lease], Renewal], None],
    ) -> None:
        self._keeper = keeper
        self._worker = worker
        self._every_s = every_s
        self._leases = leases
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._ticked_at = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"leases of {worker}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; leases are no longer renewed."""
        self._stopped.set()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._keeper.interrupt()
        self._thread.join()
        self._keeper.close()

    def _run(self) -> None:
        """What failed is tried again without another wait: before the leases end there is time for some tries."""
        while not self._stopped.is_set():
            try:
                self._keeper.wait(self._worker, self._renew())
            except TransportError as error:
                if not self._stopped.is_set():
                    _log.warning("leases_not_renewed", worker=self._worker, error=error.message)
                    self._stopped.wait(min(RETRY_S, self._every_s / 4))

    def _renew(self) -> float:
        """Seconds until the next time: a deadline, of this worker's tasks or another's, is not kept waiting."""
        self._tell(self._tick)
        silent_s = time.monotonic() - self._ticked_at
        if silent_s > WEDGED_AFTER_S:
            _log.error("event_loop_wedged", worker=self._worker, silent_s=round(silent_s))
            return self._every_s
        leases = self._leases()
        renewal = self._keeper.renew(leases)
        if renewal.lost or renewal.cancelled or renewal.expired:
            self._tell(lambda: self._on_news(leases, renewal))
        # a millisecond on top: the moment itself must have passed
        due_s = self._every_s if renewal.due_ms is None else (renewal.due_ms + 1) / 1000
        return max(SHORTEST_S, min(self._every_s, due_s))

    def _tick(self) -> None:
        self._ticked_at = time.monotonic()

    def _tell(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop was closed under us: the process ends
            self._stopped.set()
