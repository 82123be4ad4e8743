"""What happens in a task, sent to its trace's stream: deltas gathered, money charged, secrets blanked out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypedDict, cast

from envelope.codec import encode
from envelope.errors import DecodeError
from envelope.events import Event, ReasoningDelta, TextDelta, ToolInputDelta
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from envelope.redaction import may_hold_secrets, redact, redact_value, settled_chars
from transport.base import Lease, Prompt, Saved, Transport
from transport.consumer import Ending
from transport.money import Ledger

from ..clock import now_ms
from ..sessions.totals import TaskTotals
from .event_size import smaller

# A person reads no faster, and a stream of single tokens would cost a message each.
MAX_DELAY_S = 0.050
MAX_GATHERED_CHARS = 4096
# Events come in company (a call that starts, and has its answer a millisecond later): nobody sees so short a wait.
COMPANY_S = 0.010

Delta = TextDelta | ReasoningDelta | ToolInputDelta
Observer = Callable[[Event], None]


class Amounts(TypedDict):
    charge_microusd: int
    release_microusd: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """What goes out in one sending; false when that is nothing."""

    events: tuple[Event, ...]
    charge_microusd: int
    release_microusd: int

    def __bool__(self) -> bool:
        return bool(self.events or self.charge_microusd or self.release_microusd)

    @property
    def amounts(self) -> Amounts:
        return Amounts(charge_microusd=self.charge_microusd, release_microusd=self.release_microusd)


class Reporter:
    """Takes events at once and sends them in their order: deltas within 50 ms or 4 KiB, everything else within 10 ms.

    What goes wrong while sending (`Fenced` above all) is raised by the next `flush`. `ledger` is the trace's money as
    the last sending found it; the cost of each turn is charged when its `TurnFinished` is sent. `status`: what the task
    is at, as each message says it.
    """

    def __init__(self, transport: Transport, lease: Lease, *, observers: Sequence[Observer] = ()) -> None:
        """`observers` see every event as it is sent, without secrets."""
        self._transport = transport
        self._lease = lease
        self._observers = observers
        self._settled: list[Event] = []  # without secrets, and to be sent
        self._growing: Delta | None = None  # what the deltas since the last settled event came to
        self._unsent_chars = 0
        self._seq = 0
        self._sending = asyncio.Lock()
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # until what was taken is due; None while nothing waits
        self._failure: Exception | None = None
        self._sender: asyncio.Task[None] | None = None
        self.totals = TaskTotals()
        self.status = State.RUNNING
        self.ledger = Ledger(spent_microusd=0, cap_microusd=None)
        self.last_checkpoint = ""
        self._released_microusd = 0  # free again with the next sending

    async def __aenter__(self) -> Self:
        self._sender = asyncio.create_task(self._send_as_it_comes())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sender:
            self._sender.cancel()
            self._wait_for_nothing()
            await asyncio.gather(self._sender, return_exceptions=True)

    def report(self, event: Event) -> None:
        """Take an event; never waits."""
        if isinstance(event, Delta):
            self._grow(event)
        else:
            self._settle_growing()
            self._settle(event)
        if self._unsent_chars >= MAX_GATHERED_CHARS:
            self._due.set()
        else:
            self._send_within(MAX_DELAY_S if isinstance(event, Delta) else COMPANY_S)

    async def flush(self) -> Ledger:
        """Send all that was taken; raises what stopped an earlier sending, too."""
        if self._failure is not None:
            raise self._failure
        await self._send(whole=True)
        return self.ledger

    async def ask_ledger(self) -> Ledger:
        """As `flush`, but sends how the task stands even when nothing was taken: the ledger is of this moment."""
        if self._failure is not None:
            raise self._failure
        await self._send(whole=True, even_nothing=True)
        return self.ledger

    async def reserve(self, microusd: int) -> Ledger | None:
        """Set money of the trace aside; None when its cap does not allow it. Sends nothing to watchers."""
        ledger = await self._transport.reserve(self._lease, microusd)
        self.ledger = ledger or self.ledger
        return ledger

    def release(self, microusd: int) -> None:
        """What was set aside is free again, in the same step in which what is reported next is charged."""
        self._released_microusd += microusd

    async def checkpoint(self, blob: str, *, heard: int = 0) -> Sequence[Prompt]:
        """What was reported and charged, and the session that knows of it, in one step.

        `heard`: prompts that the session holds. Returns those that it does not hold.
        """
        if self._failure is not None:
            raise self._failure
        async with self._sending:
            taken = self._take(whole=True)
            with self._noting_failure():
                saved = await self._save(blob, heard, taken)
        self.ledger, self.last_checkpoint = saved.ledger, blob
        return saved.prompts

    async def ending(self, result: TaskResult) -> Ending:
        """The result with all that was not sent yet, for the two to be stored together. Raises as `flush` does."""
        if self._failure is not None:
            raise self._failure
        async with self._sending:
            taken = self._take(whole=True)
            if not taken.events and not taken.charge_microusd:
                return Ending(result, None)
            seq = self._seq
            progress = self._progress(taken.events)
            if _travels(progress):
                return Ending(result, progress, taken.charge_microusd)
            self._seq = seq
            with self._noting_failure():
                self.ledger = await self._emit(taken)
        return Ending(result, None)

    async def _send_as_it_comes(self) -> None:
        while True:
            await self._due.wait()
            try:
                await self._send()
            except Exception:  # nobody awaits this task; `_send` keeps it for the next flush
                return

    def _send_within(self, delay_s: float) -> None:
        if self._sender is None:
            return
        loop = self._sender.get_loop()
        due_s = loop.time() + delay_s
        if self._timer is None or due_s < self._timer.when():
            self._wait_for_nothing()
            self._timer = loop.call_at(due_s, self._due.set)

    def _wait_for_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _send(self, *, whole: bool = False, even_nothing: bool = False) -> None:
        async with self._sending:
            taken = self._take(whole=whole)
            if taken or even_nothing:
                with self._noting_failure():
                    self.ledger = await self._emit(taken)

    def _take(self, *, whole: bool) -> _Taken:
        """All that waits to be sent."""
        self._settle_growing(whole=whole)
        taken = _Taken(tuple(self._settled), self.totals.take_charge(), self._released_microusd)
        self._settled, self._unsent_chars, self._released_microusd = [], 0, 0
        self._wait_for_nothing()
        self._due.clear()
        return taken

    @contextmanager
    def _noting_failure(self) -> Generator[None]:
        """Whatever it is: what was taken is not sent, and every later flush must say so."""
        try:
            yield
        except Exception as e:
            self._failure = e
            raise

    async def _emit(self, taken: _Taken) -> Ledger:
        """In one message, or in as many as it takes: who sends may have been slower than a model that says much."""
        seq, events = self._seq, taken.events
        try:
            return await self._transport.emit(self._lease, self._progress(events), **taken.amounts)
        except DecodeError:  # before anything was sent
            self._seq = seq
            half = len(events) // 2
            first, rest = (events[:half], events[half:]) if half else (smaller(events[0]) if events else (), ())
            if not first:
                raise
        ledger = await self._emit(replace(taken, events=first))
        return await self._emit(_Taken(rest, 0, 0)) if rest else ledger

    async def _save(self, blob: str, heard: int, taken: _Taken) -> Saved:
        seq = self._seq
        progress = self._progress(taken.events) if taken else None
        save = self._transport.checkpoint
        try:
            return await save(self._lease, blob, heard=heard, progress=progress, **taken.amounts)
        except DecodeError:  # before anything was stored: it takes more than one message
            self._seq = seq
        await self._emit(taken)
        return await save(self._lease, blob, heard=heard)

    def _grow(self, delta: Delta) -> None:
        if self._growing is not None and _continues(self._growing, delta):
            self._growing = _with_text(self._growing, self._growing.text + delta.text)
        else:
            self._settle_growing()
            self._growing = delta
        self._unsent_chars += len(delta.text)

    def _settle_growing(self, *, whole: bool = True) -> None:
        """Let the growing delta go: all of it, or (a stream cuts secrets anywhere) what nothing can follow on."""
        delta, self._growing = self._growing, None
        if delta is None:
            return
        cut = len(delta.text) if whole else settled_chars(delta.text)
        if delta.text[:cut]:
            self._settle(_with_text(delta, delta.text[:cut]))
        if delta.text[cut:]:
            self._growing = _with_text(delta, delta.text[cut:])

    def _settle(self, event: Event) -> None:
        """From here on the event is without secrets; nothing sees it before."""
        event = redacted(event)
        self.totals.add(event)
        for observe in self._observers:
            observe(event)
        self._settled.append(event)

    def _progress(self, events: tuple[Event, ...]) -> TaskProgress:
        whole = not events or any(not isinstance(event, Delta) for event in events)
        progress = TaskProgress(
            trace_id=self._lease.trace_id,
            task_id=self._lease.task_id,
            attempt=self._lease.attempt,
            seq=self._seq,
            at_ms=now_ms(),
            status=self.status,
            events=events,
            metrics=self.totals.metrics if whole else None,
            partial_output=self.totals.partial_output or None if whole else None,
        )
        self._seq += 1
        return progress


def _travels(progress: TaskProgress) -> bool:
    try:
        encode(progress)
    except DecodeError:
        return False
    return True


def _continues(last: Delta, event: Delta) -> bool:
    same_call = getattr(last, "call_id", "") == getattr(event, "call_id", "")
    return type(last) is type(event) and same_call


def _with_text(delta: Delta, text: str) -> Delta:
    if len(text) == len(delta.text) and text == delta.text:  # as it is mostly, and a copy takes ten times as long
        return delta
    return delta.model_copy(update={"text": text})


def redacted(event: Event) -> Event:
    """As it is sent."""
    if isinstance(event, Delta):  # nearly all events are deltas, and this is the quick way
        return _with_text(event, redact(event.text))
    if not may_hold_secrets(event.__dict__):
        return event
    said = event.model_dump(exclude_unset=True)
    fields = cast(dict[str, Any], redact_value(said))
    return event if fields == said else type(event).model_validate(fields)
