"""A task's life as its stream tells it, on real transports; and the words of the scripts that it is read from."""

from __future__ import annotations

from pathlib import Path

import pytest

import transport.redis
from envelope.events import TextDelta
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from orchestrator.submit import task_request
from orchestrator.task_life import BY_REASON, Ending, Life, Phase, task_life
from transport.base import Claim, Lease, Wait
from transport.snapshot import snapshot

SCRIPTS = Path(transport.redis.__file__).parent / "scripts"
POOL = "explore"


class Played:
    """One task, played at the transport by a worker that has only this one."""

    def __init__(self, stage) -> None:
        self.muster, self.transport = stage.muster, stage.transport

    async def submit(self, **fields) -> None:
        request = task_request(agent="explore", pool=POOL, auth_scope=(), deadline_ms=60_000, **fields)
        self.handle = await self.muster.submit(request)
        self.request = request

    async def claim(self, worker: str) -> Lease:
        [claim] = await self.transport.claim(POOL, worker, slots=1, wait_s=5)
        assert isinstance(claim, Claim)
        return claim.lease

    async def finish(self, lease: Lease, status: State = State.COMPLETED) -> None:
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        await self.transport.finish(lease, TaskResult(**said, status=status))

    async def life(self, task_id: str = "") -> Life:
        entries = await self.muster.events(self.handle.trace_id)
        return task_life(await self.muster.record(task_id or self.handle.task_id), entries)


@pytest.fixture
def played(any_stage) -> Played:
    return Played(any_stage)


async def test_a_task_in_line_has_no_attempt_yet(played):
    await played.submit()

    life = await played.life()

    assert [(phase.state, phase.until_ms) for phase in life.phases] == [(State.PENDING, None)]
    assert (life.attempts, life.waited_ms, life.whole) == ([], None, True)


async def test_each_attempt_tells_who_had_it_and_how_it_ended(played):
    await played.submit()
    lease = await played.claim("w1")
    await played.transport.give_back(lease)
    lease = await played.claim("w2")
    await played.transport.retry(lease, delay_ms=1, reason="the engine does not answer")
    lease = await played.claim("w3")
    await played.transport.park(lease, Wait(asks=frozenset({"a1"})))
    await played.transport.answer(played.handle.task_id, "a1", "yes", by="ann")
    lease = await played.claim("w4")
    await played.finish(lease)

    life = await played.life()

    assert [(one.number, one.worker, one.ending, one.why) for one in life.attempts] == [
        (1, "w1", Ending.GIVEN_BACK, "its worker gave it back"),
        (2, "w2", Ending.RETRIED, "the engine does not answer"),
        (3, "w3", Ending.PARKED, "waits for 0 children, 1 asks"),
        (4, "w4", Ending.ENDED, ""),
    ]
    assert life.result is not None
    assert life.result.status is State.COMPLETED


async def test_an_attempt_that_waits_with_its_slot_is_one_attempt(played):
    await played.submit()
    lease = await played.claim("w1")
    await played.transport.hold(lease, frozenset({"ask_1"}))
    waiting = await played.life()
    await played.transport.answer(played.handle.task_id, "ask_1", "yes", by="ann")
    await played.finish(lease)

    life = await played.life()

    assert [(one.worker, one.ending, one.until_ms) for one in waiting.attempts] == [("w1", None, None)]
    assert [(one.number, one.worker, one.ending) for one in life.attempts] == [(1, "w1", Ending.ENDED)]
    states = [phase.state for phase in life.phases]
    assert states == [State.PENDING, State.RUNNING, State.WAITING, State.RUNNING]
    assert (life.attempts[0].since_ms, life.attempts[0].until_ms) == (life.phases[1].since_ms, life.phases[3].until_ms)


async def test_phases_follow_each_other_without_a_gap_and_sum_up_to_the_whole(played):
    await played.submit()
    await played.transport.give_back(await played.claim("w1"))
    await played.finish(await played.claim("w2"))

    life, record = await played.life(), await played.muster.record(played.handle.task_id)

    assert [before.until_ms for before in life.phases[:-1]] == [after.since_ms for after in life.phases[1:]]
    assert (life.phases[0].since_ms, life.phases[-1].until_ms) == (record.accepted_at_ms, record.finished_at_ms)
    assert sum(life.total_ms(state, now_ms=0) for state in State) == record.finished_at_ms - record.accepted_at_ms


async def test_a_lost_lease_is_told(played):
    await played.submit()
    await played.claim("w1")  # and is never heard of again: the stage's leases last a second
    lease = await played.claim("w2")

    life = await played.life()

    assert [(one.worker, one.ending) for one in life.attempts] == [("w1", Ending.LOST), ("w2", None)]
    await played.finish(lease)


async def test_a_child_has_a_life_of_its_own_in_the_same_stream(played):
    await played.submit()
    parent = await played.claim("w1")
    child = task_request(parent=played.request, agent="explore", pool=POOL, auth_scope=(), deadline_ms=60_000)
    [handle] = await played.transport.submit([child], under=parent)
    await played.finish(await played.claim("w2"))
    await played.finish(parent)

    life = await played.life(handle.task_id)

    assert [phase.worker for phase in life.phases] == ["", "w2"]
    record = await played.muster.record(played.handle.task_id)
    assert [one.task_id for one in await played.muster.children(record)] == [handle.task_id]


async def test_what_workers_say_of_a_task_is_no_move_of_it(played):
    await played.submit()
    lease = await played.claim("w1")
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    progress = TaskProgress(**said, seq=0, at_ms=5, status=State.RUNNING, events=(TextDelta(text="hello"),))
    await played.transport.emit(lease, progress)

    assert [phase.state for phase in (await played.life()).phases] == [State.PENDING, State.RUNNING]


async def test_of_a_trimmed_stream_the_life_begins_with_what_is_kept(played):
    await played.submit()
    await played.transport.give_back(await played.claim("w1"))
    await played.finish(await played.claim("w2"))
    entries = await played.muster.events(played.handle.trace_id)
    record = await played.muster.record(played.handle.task_id)
    before_first = snapshot([record], {}, now_ms=record.finished_at_ms + 1, after="0", before_first=entries[1].id)

    life = task_life(record, [*before_first, *entries[2:]])

    assert (life.whole, life.waited_ms) == (False, None)
    assert [(one.number, one.worker, one.ending) for one in life.attempts] == [(2, "w2", Ending.ENDED)]
    assert life.phases[-1].until_ms == record.finished_at_ms


async def test_of_a_stream_that_keeps_nothing_of_the_task_only_that_is_told(played):
    await played.submit()
    await played.finish(await played.claim("w1"))
    [entry, *_] = await played.muster.events(played.handle.trace_id)
    record = await played.muster.record(played.handle.task_id)
    result = await played.muster.result(played.handle.task_id)

    kept = snapshot([record], {record.task_id: result}, now_ms=0, after="0", before_first=entry.id)
    life = task_life(record, kept)

    assert (life.phases, life.whole, life.result) == ((), False, result)


def test_totals_count_what_still_goes_on():
    life = Life((Phase(State.PENDING, 0, 0, 100), Phase(State.RUNNING, 1, 100, 150), Phase(State.PENDING, 1, 150)))

    assert life.total_ms(State.PENDING, now_ms=200) == 150
    assert life.total_ms(State.RUNNING, now_ms=200) == 50


def test_the_queues_reasons_are_those_of_its_scripts():
    scripts = "\n".join(path.read_text() for path in SCRIPTS.glob("*.lua"))

    assert [reason for reason in BY_REASON if f"'{reason}'" not in scripts] == []
