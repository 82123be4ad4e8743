"""What every transport promises to operators: dead letters, known pools. Held against each implementation."""

from __future__ import annotations

import asyncio

import pytest

from envelope.agents import WorkerCard
from envelope.errors import ErrorCode
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from transport.errors import Refused
from transport.limits import Limits


def failure(claim, code: ErrorCode = ErrorCode.BAD_INPUT) -> TaskResult:
    return TaskResult(
        trace_id=claim.lease.trace_id,
        task_id=claim.lease.task_id,
        attempt=claim.lease.attempt,
        status=State.ERROR,
        errors=(ErrorInfo.of(code, "it cannot be read"),),
    )


async def bury(fleet, worker: str = "w1", why: str = "it cannot be read") -> str:
    await fleet.submit()
    claim = await fleet.claim_one(worker)
    assert await fleet.transport.finish(claim.lease, failure(claim), dead=why)
    return claim.lease.task_id


async def test_a_poisoned_task_is_listed_with_its_last_worker(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=100, poison_after=2))
    request = await fleet.submit()
    await fleet.claim_one("first")
    await fleet.claim_one("second")
    assert await fleet.transport.claim("explore", "third", slots=1, wait_s=0.5) == []

    (letter,) = await fleet.transport.dead_letters()

    assert (letter.task_id, letter.trace_id, letter.pool) == (request.task_id, request.trace_id, "explore")
    assert (letter.code, letter.worker) == ("poison", "second")
    assert "2 lost leases" in letter.why
    record = await fleet.transport.record(request.task_id)
    assert abs(letter.at_ms - record.finished_at_ms) < 1_000


async def test_a_worker_lists_a_task_that_nobody_can_do(fleet):
    task_id = await bury(fleet, "w7", "the envelope is unsigned")

    (letter,) = await fleet.transport.dead_letters()

    assert (letter.task_id, letter.code, letter.why, letter.worker) == (
        task_id,
        "bad_input",
        "the envelope is unsigned",
        "w7",
    )
    assert (await fleet.transport.result(task_id)).status is State.ERROR


async def test_an_ordinary_failure_is_no_dead_letter(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.finish(claim.lease, failure(claim, ErrorCode.TURN_LIMIT))

    assert await fleet.transport.dead_letters() == []


async def test_burying_again_makes_no_second_letter(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    for _ in range(2):
        assert await fleet.transport.finish(claim.lease, failure(claim), dead="why")

    assert len(await fleet.transport.dead_letters()) == 1


async def test_dead_letters_come_latest_first_and_no_more_than_asked_for(fleet):
    ids: list[str] = []
    for _ in range(5):
        ids.append(await bury(fleet))
        at_ms = await fleet.transport.now_ms()
        while await fleet.transport.now_ms() == at_ms:
            pass  # what happens to two cells in one millisecond has no order

    assert [letter.task_id for letter in await fleet.transport.dead_letters()] == ids[::-1]
    assert [letter.task_id for letter in await fleet.transport.dead_letters(limit=2)] == ids[:2:-1]


async def test_dead_letters_are_counted_without_being_read(fleet):
    assert await fleet.transport.dead_letter_count() == 0
    ids = [await bury(fleet) for _ in range(3)]

    assert await fleet.transport.dead_letter_count() == 3
    await fleet.transport.purge(ids[:1])
    assert await fleet.transport.dead_letter_count() == 2


async def test_a_purged_letter_is_gone_and_its_task_is_not(fleet):
    ids = [await bury(fleet) for _ in range(3)]

    assert await fleet.transport.purge([ids[0], ids[2], new_task_id()]) == 2

    assert [letter.task_id for letter in await fleet.transport.dead_letters()] == [ids[1]]
    assert await fleet.transport.purge(ids) == 1
    assert await fleet.transport.dead_letters() == []
    assert (await fleet.transport.record(ids[0])).state is State.ERROR


async def test_burying_a_task_ends_what_is_below_it(fleet):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    child = fleet.child(root)
    await fleet.transport.submit([child])

    await fleet.transport.finish(claim.lease, failure(claim), dead="why")

    assert (await fleet.transport.result(child.task_id)).status is State.CANCELLED


# -- pools


async def test_a_task_for_a_pool_that_is_not_known_is_refused(fleet):
    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([fleet.request(), fleet.request(recipient="exlpore")])

    assert refusal.value.field == "recipient"
    assert "explore" in refusal.value.hint
    assert await fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []  # none of the batch came in


async def test_a_pool_is_known_from_its_first_worker_on(fleet):
    card = WorkerCard(worker="gpu-1", pool="gpu", slots=1, running=0, started_at_ms=0)
    await fleet.transport.announce(card, ttl_s=0.05)
    await asyncio.sleep(0.1)  # its worker is gone, the pool is not: one may come back

    request = await fleet.submit(recipient="gpu")

    assert (await fleet.claim_one(pool="gpu")).lease.task_id == request.task_id
    assert await fleet.transport.workers() == []


async def test_what_should_have_ended_is_counted_until_it_has(fleet):
    request = await fleet.submit(deadline_ms=60_000)
    in_two_minutes = -120_000

    assert await fleet.transport.overdue(0) == 0
    assert await fleet.transport.overdue(in_two_minutes) == 1

    await fleet.finish(await fleet.claim_one())
    assert await fleet.transport.overdue(in_two_minutes) == 0
    assert (await fleet.transport.record(request.task_id)).state is State.COMPLETED


async def test_memory_that_nothing_limits_is_never_full(fleet):
    assert await fleet.transport.memory_used() == 0
