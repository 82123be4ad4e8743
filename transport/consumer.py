"""The loop of everyone who serves a queue: claim up to the free slots, keep the leases, finish.

Knows nothing of what a task means: a `Handler` turns one delivery into one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from envelope.codec import decode_request
from envelope.errors import EnvelopeError, ErrorCode
from envelope.logs import get_logger
from envelope.messages import TaskRequest, TaskResult

from .base import Claim, Lease, Renewal, Transport
from .delivery import ConsumerEvent, Delivery, Handler, StopReason, What, ending, failed
from .errors import Fenced, QueueFull, TransportError, Unreachable
from .keeping import KeeperThread

__all__ = ["Consumer", "ConsumerEvent", "Delivery", "Handler", "StopReason", "What"]

# A claim that finds nothing comes back this often, only to see whether the server is still there.
CLAIM_WAIT_S = 30.0
# The first of many tasks should run while the rest are still being claimed, and other workers get their turn.
CLAIM_AT_ONCE = 100
# First pause, and the longest, between tries to reach a lost server.
BACKOFF_S = (0.1, 5.0)
# How long handlers may clean up after they were told to stop, before the worker leaves without them.
CLEANUP_S = 30.0

_log = get_logger("consumer")


def _ignore(_event: ConsumerEvent) -> None:
    return None


class Consumer:
    """Serves one pool with a number of slots. A slot is taken from the claim until the result is stored."""

    def __init__(
        self,
        transport: Transport,
        *,
        pool: str,
        worker: str,
        slots: int,
        handle: Handler,
        on_event: Callable[[ConsumerEvent], None] = _ignore,
        grace_s: float = 0.0,
    ) -> None:
        """`worker` must be unique in the fleet. `grace_s`: how long running tasks may go on after the stop."""
        self._transport = transport
        self._pool = pool
        self._worker = worker
        self._slots = slots
        self._handle = handle
        self._on_event = on_event
        self._grace_s = grace_s
        # by lease, not by task: an attempt that was lost may still clean up when the next one starts here
        self._working: dict[Lease, asyncio.Task[None]] = {}
        self._deliveries: dict[Lease, Delivery] = {}
        self._freed = asyncio.Event()

    @property
    def running(self) -> int:
        """Slots in use."""
        return len(self._working)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let running work end within the grace and give the rest back."""
        keeper = KeeperThread(
            self._transport.keeper(),
            worker=self._worker,
            lease_s=self._transport.limits.lease_ms / 1000,
            leases=self._held,
            on_news=self._hear,
        )
        keeper.start()
        try:
            await self._serve(stop)
            await self._drain()
        finally:
            for work in self._working.values():
                work.cancel()
            await keeper.stop()

    # -- claiming

    async def _serve(self, stop: asyncio.Event) -> None:
        """Fill slots until the stop. A claim that is cancelled gives back what it started."""
        filling, stopping = asyncio.ensure_future(self._fill_slots()), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({filling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            filling.cancel()
            stopping.cancel()
            await asyncio.wait({filling})
        if not filling.cancelled():
            filling.result()  # it never ends by itself, but for a fault of ours

    async def _fill_slots(self) -> None:
        pause_s, longest_s = BACKOFF_S
        while True:
            try:
                await self._fill()
                pause_s = BACKOFF_S[0]
            except TransportError as error:
                _log.warning("claim_failed", pool=self._pool, error=error.message, again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, longest_s)

    async def _fill(self) -> None:
        """Start as much as there are free slots; when there is none, wait for one."""
        free = self._slots - len(self._working)
        if free <= 0:
            self._freed.clear()
            await self._freed.wait()
            return
        slots = min(free, CLAIM_AT_ONCE)
        for claim in await self._transport.claim(self._pool, self._worker, slots=slots, wait_s=CLAIM_WAIT_S):
            self._start(claim)

    def _start(self, claim: Claim) -> None:
        if claim.lease.attempt > 1:
            self._stop_earlier(claim.lease.task_id)
        work = self._working[claim.lease] = asyncio.create_task(self._work(claim))
        work.add_done_callback(lambda done: self._release(claim.lease, done))

    def _stop_earlier(self, task_id: str) -> None:
        """An attempt that was lost may still be at work here."""
        for lease, delivery in self._deliveries.items():
            if lease.task_id == task_id:
                delivery.stop(StopReason.LOST)

    def _release(self, lease: Lease, done: asyncio.Task[None]) -> None:
        del self._working[lease]
        self._freed.set()
        if not done.cancelled() and (error := done.exception()):
            # its lease is no longer renewed: another attempt follows
            _log.error("delivery_failed", task_id=lease.task_id, error=repr(error))

    # -- one delivery

    async def _work(self, claim: Claim) -> None:
        self._on_event(ConsumerEvent(What.CLAIMED, claim))
        try:
            request = decode_request(claim.envelope, keyring=self._transport.keyring)
        except EnvelopeError as error:
            await self._finish(claim, None, failed(claim.lease, ErrorCode.BAD_INPUT, error.message, hint=error.hint))
            return
        delivery = self._deliveries[claim.lease] = Delivery(claim, request)
        timer = self._deadline_timer(delivery)
        try:
            result = await self._outcome(delivery)
        finally:
            if timer:
                timer.cancel()
            del self._deliveries[claim.lease]
        if result is not None:
            await self._finish(claim, request, result)
        elif delivery.stop_reason is StopReason.DRAIN:
            await self._give_back(claim, request)
        else:
            self._on_event(ConsumerEvent(What.LOST, claim, request))

    def _deadline_timer(self, delivery: Delivery) -> asyncio.TimerHandle | None:
        """Of a far deadline the keeper hears in time, at most a third of a lease late; a near one needs a timer."""
        left_ms = delivery.claim.expires_at_ms - delivery.claim.started_at_ms
        if left_ms > self._transport.limits.lease_ms:
            return None
        return asyncio.get_running_loop().call_later(left_ms / 1000, delivery.stop, StopReason.EXPIRED)

    async def _outcome(self, delivery: Delivery) -> TaskResult | None:
        """The result to store; None when the task is no longer ours, or will not be."""
        delivery.task = asyncio.current_task()
        try:
            result = await self._result_of(delivery)
        finally:
            # stopping from here on would hit the finish; what was cancelled before was the handler alone
            task, delivery.task = delivery.task, None
            if task and delivery.stop_reason is not None:
                task.uncancel()
        return None if delivery.stop_reason is StopReason.LOST else result

    async def _result_of(self, delivery: Delivery) -> TaskResult | None:
        lease = delivery.claim.lease
        try:
            return await self._handle(delivery)
        except asyncio.CancelledError:
            if delivery.stop_reason is None:
                raise  # nobody stopped the handler: this consumer itself is being torn down
            return ending(delivery)
        except Fenced:
            return None
        except (Unreachable, QueueFull) as error:
            # not the task's fault: whoever claims it next, with a server that takes writes, goes on from the checkpoint
            _log.warning("task_interrupted", task_id=lease.task_id, error=error.message)
            delivery.stop_reason = StopReason.DRAIN
            return None
        except Exception:
            # the border of other people's code: whatever escapes a handler ends its task, never the worker
            _log.exception("handler_failed", task_id=lease.task_id, pool=self._pool)
            return failed(lease, ErrorCode.INTERNAL, "the worker failed on this task", hint="its log has the reason")

    async def _finish(self, claim: Claim, request: TaskRequest | None, result: TaskResult) -> None:
        try:
            stored = await _until_stored(lambda: self._transport.finish(claim.lease, result))
        except EnvelopeError as error:
            # the task has run, its result cannot travel
            result = failed(claim.lease, ErrorCode.INTERNAL, error.message, hint=error.hint)
            stored = await _until_stored(lambda: self._transport.finish(claim.lease, result))
        what = What.FINISHED if stored else What.LOST
        self._on_event(ConsumerEvent(what, claim, request, result if stored else None))

    async def _give_back(self, claim: Claim, request: TaskRequest) -> None:
        given = await _until_stored(lambda: self._transport.give_back(claim.lease))
        self._on_event(ConsumerEvent(What.GIVEN_BACK if given else What.LOST, claim, request))

    # -- stopping

    def _held(self) -> Sequence[Lease]:
        """Called in the keeper's thread: one lease per task, the latest."""
        return list({lease.task_id: lease for lease in list(self._working)}.values())

    def _hear(self, asked: Sequence[Lease], news: Renewal) -> None:
        for delivery in [self._deliveries[lease] for lease in asked if lease in self._deliveries]:
            task_id = delivery.claim.lease.task_id
            if task_id in news.lost:
                delivery.stop(StopReason.LOST)
            elif task_id in news.cancelled:
                delivery.stop(StopReason.CANCELLED, news.cancelled[task_id])
            elif task_id in news.expired:
                delivery.stop(StopReason.EXPIRED)

    async def _drain(self) -> None:
        if self._working:
            await asyncio.wait(self._working.values(), timeout=self._grace_s)
        for delivery in list(self._deliveries.values()):
            delivery.stop(StopReason.DRAIN)
        if self._working:
            _, stuck = await asyncio.wait(self._working.values(), timeout=CLEANUP_S)
            if stuck:
                _log.error("handlers_did_not_stop", count=len(stuck))


async def _until_stored(write: Callable[[], Awaitable[None]]) -> bool:
    """Try until the server took it (True), or said that the task is another's (False)."""
    pause_s, longest_s = BACKOFF_S
    while True:
        try:
            await write()
        except Fenced:
            return False
        except (Unreachable, QueueFull) as error:
            _log.warning("write_failed", error=error.message, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, longest_s)
        else:
            return True
