"""A task's whole life, told by its trace's stream: where it was, from when until when, and why it moved on. Pure.

The queue writes each move of a task itself, with `seq` -1 and on its own clock; what workers say does not count here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from envelope.events import Resynced, StateChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry, TaskRecord


class Ending(StrEnum):
    """How an attempt ended."""

    LOST = "lost"
    GIVEN_BACK = "given back"
    PROMPTED = "prompted"
    PARKED = "parked"
    RETRIED = "retried"
    ENDED = "ended"  # with its task


# The queue's words for why a running task is pending again; a test looks for them in the scripts. Others are a
# worker's own: why it wants to try again.
BY_REASON = {
    "its worker was lost": Ending.LOST,
    "its worker gave it back": Ending.GIVEN_BACK,
    "a prompt came in": Ending.PROMPTED,
}


@dataclass(frozen=True, slots=True)
class Phase:
    """The task was in `state` from one moment to another (None: it still is). `reason`: why it came there."""

    state: State
    attempt: int
    since_ms: int
    until_ms: int | None = None
    worker: str = ""
    reason: str = ""

    @property
    def is_with_worker(self) -> bool:
        """Also one that waits, if it does so with its slot."""
        return self.state is State.RUNNING or (self.state is State.WAITING and bool(self.worker))

    def length_ms(self, now_ms: int) -> int:
        return max(0, (now_ms if self.until_ms is None else self.until_ms) - self.since_ms)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of the task. `ending` is None while it runs; `why` is the reason for its ending, if there was one."""

    number: int
    worker: str
    since_ms: int
    until_ms: int | None
    ending: Ending | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """`whole` is False when the first entries of the stream are no longer kept: the first phases are missing then."""

    phases: tuple[Phase, ...] = ()
    whole: bool = True
    result: TaskResult | None = None

    @property
    def attempts(self) -> list[Attempt]:
        return list(_attempts(self.phases))

    @property
    def waited_ms(self) -> int | None:
        """From its acceptance to its first start; None when it has not started, or when that is not known."""
        first = next((phase for phase in self.phases if phase.state is State.RUNNING), None)
        return first.since_ms - self.phases[0].since_ms if first and self.whole else None

    def total_ms(self, state: State, *, now_ms: int) -> int:
        """How long the task was in a state in all, as far as its life is known."""
        return sum(phase.length_ms(now_ms) for phase in self.phases if phase.state is state)


def task_life(record: TaskRecord, entries: Iterable[Entry]) -> Life:
    """The life of the record's task, from its trace's entries; the record must not be older than they are."""
    life = begun(record)
    for entry in entries:
        life = lived(life, record.task_id, entry.message)
    return closed(life, record)


def begun(record: TaskRecord) -> Life:
    """Before the first entry."""
    return Life(phases=(Phase(State.PENDING, 0, record.accepted_at_ms),))


def lived(life: Life, task_id: str, message: TaskProgress | TaskResult) -> Life:
    """One message further."""
    if message.task_id != task_id:
        return life
    if isinstance(message, TaskResult):
        return replace(life, result=message)
    if is_resync(message):
        # where the task is now is the record's to tell; what follows are the entries that are still kept
        return Life(whole=False)
    return replace(life, phases=_moved(life.phases, message)) if message.seq < 0 else life


def closed(life: Life, record: TaskRecord) -> Life:
    """With the end that the record knows of, if the task has ended."""
    return replace(life, phases=_closed(life.phases, record.finished_at_ms))


def is_resync(progress: TaskProgress) -> bool:
    """Does it stand for entries that are no longer kept?"""
    return any(isinstance(event, Resynced) for event in progress.events)


def _moved(phases: tuple[Phase, ...], progress: TaskProgress) -> tuple[Phase, ...]:
    for event in progress.events:
        # a new trace begins with its root's being pending, which every life begins with
        if isinstance(event, StateChanged) and progress.attempt:
            phase = Phase(event.state, progress.attempt, progress.at_ms, worker=event.worker, reason=event.reason)
            phases = (*_closed(phases, progress.at_ms), phase)
    return phases


def _closed(phases: tuple[Phase, ...], at_ms: int | None) -> tuple[Phase, ...]:
    return (*phases[:-1], replace(phases[-1], until_ms=at_ms)) if phases else ()


def _attempts(phases: tuple[Phase, ...]) -> Iterator[Attempt]:
    """One lasts as long as a worker has the task, which may wait with its slot meanwhile."""
    first: Phase | None = None
    following = (*phases[1:], None)[: len(phases)]  # of a stream that was cut there may be no phase at all
    for phase, after in zip(phases, following, strict=True):
        if not phase.is_with_worker:
            continue
        first = first or phase
        if after is None or not after.is_with_worker or after.attempt != phase.attempt:
            ending, why = _ending(phase, after)
            yield Attempt(first.attempt, first.worker, first.since_ms, phase.until_ms, ending, why)
            first = None


def _ending(phase: Phase, after: Phase | None) -> tuple[Ending | None, str]:
    if after is None:
        return (None if phase.until_ms is None else Ending.ENDED), ""
    if after.state is State.WAITING:
        return Ending.PARKED, after.reason
    return BY_REASON.get(after.reason, Ending.RETRIED), after.reason
