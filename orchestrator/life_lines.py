"""A task's life as a person reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import tzinfo
from typing import Any

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import TaskRecord

from .client import Muster
from .session.said import GLYPH
from .submit import DRIVERS
from .task_life import Attempt, Ending, Life, begun, closed, lived
from .units import duration
from .words import clock, counted, reason_text, short

Line = tuple[str, str]  # what it is about (empty: as the line above), and what there is to say

# The latest ones: a task that parks at every turn has hundreds.
MAX_ATTEMPTS = 20
MAX_CHILDREN = 20
LIVED = (State.PENDING, State.RUNNING, State.WAITING)
TOTALS = {State.PENDING: "in line", State.RUNNING: "running", State.WAITING: "waiting"}


@dataclass(frozen=True, slots=True)
class Told:
    """All that is known of how a task went. `now_ms` is the queue's."""

    record: TaskRecord
    life: Life
    children: Sequence[TaskRecord]
    now_ms: int

    def as_json(self) -> dict[str, Any]:
        """The record's fields, with `result`, `life` and `children` beside them; an age counts until `now_ms`."""
        life = self.life
        return {
            **asdict(self.record),
            "result": life.result.model_dump(mode="json") if life.result else None,
            "life": {
                "whole": life.whole,
                "phases": [asdict(phase) for phase in life.phases],
                "attempts": [asdict(attempt) for attempt in life.attempts],
                "total_ms": {state.value: life.total_ms(state, now_ms=self.now_ms) for state in LIVED},
            },
            "children": [asdict(child) for child in self.children],
        }


async def life_of(muster: Muster, task_id: str, trace_id: str) -> Told:
    life = begun(await muster.record(task_id))
    async for entry in muster.transport.follow(trace_id, wait=False, about=task_id):
        life = lived(life, task_id, entry.message)
    return await told_of(muster, task_id, life)


async def told_of(muster: Muster, task_id: str, life: Life) -> Told:
    """Of a life as its events tell it. The record is read after them, so that it is not older than they are."""
    record = await muster.record(task_id)
    return Told(record, closed(life, record), await muster.children(record), await muster.transport.now_ms())


def life_lines(told: Told, *, zone: tzinfo | None = None) -> Iterator[Line]:
    """`zone` is where times are told for; None: this machine's."""
    yield from _accepted(told, zone)
    yield from _attempts(told, zone)
    yield from _now(told)
    yield from _ended(told.record, zone)
    yield from _totals(told)
    yield from _deadline(told)
    yield from _cancelled(told)
    yield from _session(told)
    yield from _children(told.children)


def _accepted(told: Told, zone: tzinfo | None) -> Iterator[Line]:
    record, waited_ms = told.record, told.life.waited_ms
    started = f", started {duration(waited_ms)} later" if waited_ms is not None else ""
    yield "accepted", f"{clock(record.accepted_at_ms, zone=zone, day=True)}{started}"
    if not told.life.whole:
        yield "", "earlier events are no longer kept: the first attempts and waits are missing here"


def _attempts(told: Told, zone: tzinfo | None) -> Iterator[Line]:
    attempts = told.life.attempts
    if earlier := attempts[:-MAX_ATTEMPTS]:
        yield "attempts", f"… {len(earlier)} earlier ({_endings(earlier)})"
    for attempt in attempts[-MAX_ATTEMPTS:]:
        yield f"attempt {attempt.number}", f"{_span(attempt, told.now_ms, zone)}: {_how(attempt, told)}"


def _span(attempt: Attempt, now_ms: int, zone: tzinfo | None) -> str:
    since, until_ms = clock(attempt.since_ms, zone=zone), attempt.until_ms
    until = f" – {clock(until_ms, zone=zone)}" if until_ms is not None else ""
    length = duration((now_ms if until_ms is None else until_ms) - attempt.since_ms)
    return f"{since}{until} ({length}) on {attempt.worker}"


# What the queue says itself needs no second sentence.
_SAID = {
    Ending.LOST: "lost, the worker did not renew its lease",
    Ending.GIVEN_BACK: "given back by its worker",
    Ending.PROMPTED: "went on, a prompt came in",
}


def _how(attempt: Attempt, told: Told) -> str:
    match attempt.ending:
        case None:
            return "runs"
        case Ending.ENDED:
            return f"{told.record.state}{_code(told.life.result)}"
        case Ending.PARKED | Ending.RETRIED:
            return f"{attempt.ending}, {reason_text(attempt.why)}"
        case ending:
            return _SAID[ending]


def _code(result: TaskResult | None) -> str:
    """What the state alone does not say: ` (poison)`."""
    code = result.errors[0].code if result and result.errors else None
    return f" ({code})" if result and code and code != result.status else ""


def _endings(attempts: Sequence[Attempt]) -> str:
    counts = Counter(attempt.ending for attempt in attempts if attempt.ending)
    return ", ".join(f"{count} {ending}" for ending, count in counts.items())


def _now(told: Told) -> Iterator[Line]:
    """Of a task that has not ended and does not run: since when, and why."""
    phase = told.life.phases[-1] if told.life.phases else None
    if phase is None or phase.until_ms is not None or phase.state is State.RUNNING:
        return
    why = f": {reason_text(phase.reason)}" if phase.reason else ""
    missing = [short(name) for name in told.record.waits_for]
    names = f" ({', '.join(missing[:MAX_CHILDREN])})" if missing else ""
    yield str(phase.state), f"for {duration(phase.length_ms(told.now_ms))}{why}{names}"


def _ended(record: TaskRecord, zone: tzinfo | None) -> Iterator[Line]:
    if record.finished_at_ms is not None:
        after = duration(record.finished_at_ms - record.accepted_at_ms)
        yield "ended", f"{clock(record.finished_at_ms, zone=zone)} as {record.state}, {after} after its acceptance"


def _totals(told: Told) -> Iterator[Line]:
    lengths = {state: told.life.total_ms(state, now_ms=told.now_ms) for state in LIVED}
    spent = ", ".join(f"{duration(ms)} {TOTALS[state]}" for state, ms in lengths.items() if ms)
    record = told.record
    counts = [(record.lost_leases, "lost lease"), (record.retries, "retry")]
    trouble = ", ".join(counted(count, noun) for count, noun in counts if count)
    if spent or trouble:
        yield "in all", "; ".join(filter(None, (spent, trouble)))


def _deadline(told: Told) -> Iterator[Line]:
    record = told.record
    granted = duration(record.expires_at_ms - record.accepted_at_ms)
    ended_ms = record.finished_at_ms
    left_ms = record.expires_at_ms - (told.now_ms if ended_ms is None else ended_ms)
    if left_ms < 0:
        left = f"over for {duration(-left_ms)}" if ended_ms is None else f"ended {duration(-left_ms)} after it"
    else:
        left = f"{duration(left_ms)} {'left' if ended_ms is None else 'were left'}"
    yield "deadline", f"{granted} from its acceptance; {left}"


def _cancelled(told: Told) -> Iterator[Line]:
    record, result = told.record, told.life.result
    said = result.errors[0].message if result and result.errors and result.status is State.CANCELLED else ""
    by, why = (f"by {record.cancelled_by}" if record.cancelled_by else ""), record.cancel_reason or said
    if by or why:
        yield "cancelled", ": ".join(filter(None, (by, why)))


def _session(told: Told) -> Iterator[Line]:
    record, result = told.record, told.life.result
    token = result.resume_token if result else ""
    if record.pool != DRIVERS and (record.checkpoint or token):  # a driver's checkpoint is no session
        session = record.session_id or token or record.task_id
        yield "session", f"{session}; go on with it: muster task prompt {record.task_id} TEXT"


def _children(children: Sequence[TaskRecord]) -> Iterator[Line]:
    if not children:
        return
    states = Counter(child.state for child in children)
    yield "children", f"{len(children)}: {', '.join(f'{count} {state}' for state, count in states.items())}"
    for child in children[:MAX_CHILDREN]:
        intent = child.intent if child.intent != child.agent else ""
        yield "", f"{GLYPH[child.state]} {short(child.task_id)} {child.agent} {intent}"
    if more := max(0, len(children) - MAX_CHILDREN):
        yield "", f"… {more} more (muster task list --trace {short(children[0].task_id)})"
