"""The loop of everyone who serves a queue: claim up to the free slots, keep the leases, finish.

Knows nothing of what a task means: a `Handler` turns one delivery into one result.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from envelope.agents import WorkerCard
from envelope.codec import decode_request
from envelope.errors import DecodeError, EnvelopeError, ErrorCode
from envelope.logs import bind, get_logger
from envelope.messages import TaskRequest

from .base import Claim, Lease, Renewal, Transport
from .blobs.owners import acting_for
from .delivery import (
    Again,
    ConsumerEvent,
    Delivery,
    Ending,
    Handler,
    Outcome,
    Pause,
    StopReason,
    What,
    ending,
    failed,
)
from .errors import Fenced, QueueFull, TransportError, Unreachable
from .keeping import KeeperThread
from .metrics.pulse import Pulse
from .settling import Settling
from .tracing import attempt_span, tell_span
from .watchdog import watched_steps

__all__ = ["Again", "Consumer", "ConsumerEvent", "Delivery", "Ending", "Handler", "Pause", "StopReason", "What"]

# A claim that finds nothing comes back this often, only to see whether the server is still there.
CLAIM_WAIT_S = 30.0
# By then a claim has come back whatever its server does, unless something is stuck.
CLAIM_PATIENCE_S = 3 * CLAIM_WAIT_S
# First pause, and the longest, between claims that found no server: it may be back with tasks whose time is over.
CLAIM_AGAIN_S = (0.1, 2.0)
# The first of many tasks should run while the rest are still being claimed, and other workers get their turn. As many
# as are written together (`redis/writer.py`): what ends in one batch is filled by one claim.
CLAIM_AT_ONCE = 48
# Who has been idle takes a few at a time, so that idle workers share what comes; once he has filled half of his slots
# like that, there is more than all of them can take.
IDLE_SHARE, IDLE_CLAIMS = 16, 8
# Beyond its slots a worker has room for one more in so many, for tenants who have less than that here: one tenant's
# long tasks in all slots must not keep everybody else's from beginning. It looks for them so often.
SPARE_SHARE, SPARE_LOOK_S = 8, 1.0
# How long handlers may clean up after they were told to stop, before the worker leaves without them.
CLEANUP_S = 30.0

WITHDRAW_TIMEOUT_S = 1.0
_log = get_logger("consumer")


def _ignore(_event: ConsumerEvent) -> None:
    return None


class Consumer:
    """Serves one pool with a number of slots. A slot is taken from the claim until the result is stored.

    When all are taken there is room for a few more (an eighth, one at least), of tenants who have fewer than that here.
    """

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
        self._settling = Settling(transport, self._tell_end)
        self._grace_s = grace_s
        self._runs: set[_Run] = set()
        # the latest of each task: one that was lost may still clean up when the next starts here
        self._latest: dict[str, _Run] = {}
        self._coming = 0  # claimed, and about to start
        self._full_claims = 0  # in a row: there was more
        self._freed = asyncio.Event()
        self._draining = False
        self.pulse = Pulse()  # of the loop that claims

    @property
    def running(self) -> int:
        """Slots in use."""
        return len(self._runs)

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
        """Serve until `stop` is set, then let running work end within the grace and give the rest back.

        `hurry` ends the grace at once.
        """
        keeper = KeeperThread(
            self._transport.keeper(),
            worker=self._worker,
            every_s=self._transport.limits.look_ms / 1000,
            leases=self._held,
            on_news=self._hear,
        )
        keeper.start()
        beating = asyncio.create_task(self.pulse.beat())
        try:
            await self._serve(stop)
            await self._drain(hurry or asyncio.Event())
        finally:
            for run in self._runs:
                run.work.cancel()
            await keeper.stop()
            beating.cancel()

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
        pause_s, longest_s = CLAIM_AGAIN_S
        while True:
            try:
                await self._fill()
                pause_s = CLAIM_AGAIN_S[0]
            except TransportError as error:
                _log.warning("claim_failed", pool=self._pool, error=error.message, again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, longest_s)

    async def _fill(self) -> None:
        """Start as much as there are free slots; when there is none, wait for one."""
        free = self._slots - len(self._runs) - self._coming
        if free <= 0:
            await self._fill_spare(free)
            return
        self.pulse.expect(CLAIM_PATIENCE_S)
        at_once = max(1, self._slots // IDLE_SHARE) if self._full_claims < IDLE_CLAIMS else CLAIM_AT_ONCE
        slots = min(free, at_once)
        claims = await self._transport.claim(self._pool, self._worker, slots=slots, wait_s=CLAIM_WAIT_S)
        self._full_claims = self._full_claims + 1 if len(claims) == slots else 0
        if len(claims) < slots:  # the next claim has to wait anyway: what was claimed goes first
            self._start_all(claims)
            await asyncio.sleep(0)
        else:  # the server works on the next claim while these are worked on here
            self._coming += len(claims)
            asyncio.get_running_loop().call_soon(self._start_coming, claims)

    async def _fill_spare(self, free: int) -> None:
        """All slots are taken, by tasks that may take for hours: where none is freed soon, start some of others."""
        self._freed.clear()
        self.pulse.expect(CLAIM_PATIENCE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(SPARE_LOOK_S):
                await self._freed.wait()
                return
        spare = max(1, self._slots // SPARE_SHARE)
        here = Counter(run.delivery.request.tenant for run in self._runs if run.delivery)
        enough = [tenant for tenant, count in here.items() if count >= spare]
        if (left := spare + free) > 0 and enough:
            self._start_all(await self._transport.claim(self._pool, self._worker, slots=left, wait_s=0, but_of=enough))

    def _start_coming(self, claims: Sequence[Claim]) -> None:
        self._coming -= len(claims)
        self._start_all(claims)

    def _start_all(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._start(claim)

    def _start(self, claim: Claim) -> None:
        run = _Run(claim, self._latest.get(claim.lease.task_id))
        self._latest[claim.lease.task_id] = run
        self._runs.add(run)
        run.work = asyncio.create_task(self._work(run))
        run.work.add_done_callback(lambda _: self._release(run))

    def _release(self, run: _Run) -> None:
        task_id = run.claim.lease.task_id
        self._runs.discard(run)
        if self._latest.get(task_id) is run:
            del self._latest[task_id]
        self._freed.set()
        if not run.work.cancelled() and (error := run.work.exception()):
            # its lease is no longer renewed: another attempt follows
            _log.error("delivery_failed", task_id=task_id, error=repr(error))

    # -- one delivery

    async def _work(self, run: _Run) -> None:
        claim = run.claim
        if run.earlier:
            await _outlive(run.earlier, claim.lease)
            run.earlier = None
            if self._draining:
                await self._transport.give_back(claim.lease)
                return
        self._on_event(ConsumerEvent(What.CLAIMED, claim))
        try:
            request = self._opened(claim)
        except EnvelopeError as error:
            await self._settling.refuse(claim, error)
            return
        delivery = Delivery(replace(claim, expires_at_ms=min(claim.expires_at_ms, self._last_ms(request))), request)
        if claim.started_at_ms >= self._last_ms(request):
            delivery.stop_reason = StopReason.EXPIRED
            await self._settling.settle(delivery, ending(delivery))
            return
        bind(task_id=request.task_id, trace_id=request.trace_id)
        _log.info("task_started", pool=self._pool, agent=request.agent, attempt=claim.lease.attempt)
        with attempt_span(claim, request):
            await self._attempt(run, delivery)

    async def _attempt(self, run: _Run, delivery: Delivery) -> None:
        run.delivery = delivery
        timer = self._deadline_timer(delivery)
        try:
            outcome = await self._outcome(delivery)
        finally:
            timer.cancel()
            run.delivery = None
        if run.superseded:
            outcome, delivery.stop_reason = None, StopReason.LOST
        await self._settling.settle(delivery, outcome)

    def _opened(self, claim: Claim) -> TaskRequest:
        """The request that was signed for this very task: a good envelope in another's record is a forgery, too."""
        request = decode_request(claim.envelope, keyring=self._transport.keyring)
        lease = claim.lease
        if (request.task_id, request.trace_id, request.recipient) != (lease.task_id, lease.trace_id, lease.pool):
            raise DecodeError(f"the envelope is of another task, {request.task_id} for {request.recipient}")
        return request

    def _last_ms(self, request: TaskRequest) -> int:
        """By then the task is over, as it was signed: the queue takes no request that is older than the window. What
        the record says may be written by whoever has a worker's password."""
        return request.created_at_ms + self._transport.limits.replay_window_ms + request.deadline_ms

    def _deadline_timer(self, delivery: Delivery) -> asyncio.TimerHandle:
        """Of a far deadline the keeper hears in time, if its record still says so; one that may pass before it renews
        needs a timer."""
        end_ms = delivery.claim.expires_at_ms
        if end_ms - delivery.claim.started_at_ms > self._transport.limits.lease_ms:
            end_ms = self._last_ms(delivery.request)
        left_ms = end_ms - delivery.claim.started_at_ms
        return asyncio.get_running_loop().call_later(left_ms / 1000, delivery.stop, StopReason.EXPIRED)

    async def _outcome(self, delivery: Delivery) -> Outcome | None:
        """What becomes of the task; None when it is no longer ours, or will not be."""
        delivery.task = asyncio.current_task()
        try:
            outcome = await self._outcome_of(delivery)
        finally:
            # stopping from here on would hit the finish; what was cancelled before was the handler alone
            task, delivery.task = delivery.task, None
            if task and delivery.stop_reason is not None:
                task.uncancel()
        return None if delivery.stop_reason is StopReason.LOST else outcome

    async def _outcome_of(self, delivery: Delivery) -> Outcome | None:
        lease = delivery.claim.lease
        try:
            with acting_for(delivery.request.tenant), watched_steps():
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

    def _tell_end(self, event: ConsumerEvent) -> None:
        tell_span(event)
        result, attempt = event.result, event.claim.lease.attempt
        ended = {} if result is None else {"state": result.status, "error": result.errors and result.errors[0].code}
        _log.info(f"task_{event.what}", pool=self._pool, attempt=attempt, **ended)
        self._on_event(event)

    # -- stopping

    def _held(self) -> Sequence[Lease]:
        """Called in the keeper's thread: one lease per task, the latest."""
        return [run.claim.lease for run in list(self._latest.values())]

    def _hear(self, asked: Sequence[Lease], news: Renewal) -> None:
        for lease in asked:
            run, task_id = self._latest.get(lease.task_id), lease.task_id
            if run is None or run.delivery is None or run.claim.lease != lease:
                continue
            delivery = run.delivery
            if task_id in news.lost:
                delivery.stop(StopReason.LOST)
            elif task_id in news.cancelled:
                delivery.stop(StopReason.CANCELLED, news.cancelled[task_id])
            elif task_id in news.expired:
                delivery.stop(StopReason.EXPIRED)

    async def _drain(self, hurry: asyncio.Event) -> None:
        self._draining = True
        self.pulse.expect(math.inf)
        await self._grace(hurry)
        for run in list(self._runs):
            if run.delivery:
                run.delivery.stop(StopReason.DRAIN)
        if self._runs:
            _, stuck = await asyncio.wait({run.work for run in self._runs}, timeout=CLEANUP_S)
            if stuck:
                _log.error("handlers_did_not_stop", count=len(stuck))

    async def _grace(self, hurry: asyncio.Event) -> None:
        """Until all work has ended by itself, somebody is in a hurry, or the grace is over."""
        if not self._runs:
            return
        ended = asyncio.ensure_future(asyncio.wait({run.work for run in self._runs}))
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait({ended, hurried}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (ended, hurried):
            waiting.cancel()


@dataclass(slots=True, eq=False)
class _Run:
    """One start of one task here. `earlier`: the last start of the same task, if it has not ended yet."""

    claim: Claim
    earlier: _Run | None
    delivery: Delivery | None = None  # while the handler is at it
    superseded: bool = False  # the same task has started again here
    work: asyncio.Task[None] = field(init=False)


async def _outlive(earlier: _Run, lease: Lease) -> None:
    """Stop what is left of an earlier start, which has lost its lease.

    A server that forgot (a failover to a replica that lagged) may give out the very same attempt again: fencing cannot
    tell those two apart, so that the later one waits for the end of the earlier.
    """
    earlier.superseded = True
    if earlier.delivery:
        earlier.delivery.stop(StopReason.LOST)
    if earlier.claim.lease == lease:
        await asyncio.wait({earlier.work})


async def withdraw(transport: Transport, card: WorkerCard) -> None:
    """Whoever has ended is not looked at any more: its model and agents may be others than those of the next fleet."""
    with suppress(TransportError, TimeoutError):  # a store that is away forgets the card by itself
        async with asyncio.timeout(WITHDRAW_TIMEOUT_S):
            await transport.announce(card, ttl_s=0)
