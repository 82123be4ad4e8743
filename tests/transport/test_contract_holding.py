"""What every transport promises about tasks that wait with their slot, held against each implementation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envelope.events import StateChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from transport.base import Wait
from transport.errors import Fenced
from transport.raising import ask_for_more


async def told(fleet, claim) -> list[tuple[State, str]]:
    """The states that the queue has told of, and who had the task."""
    entries = [entry.message async for entry in fleet.transport.follow(claim.lease.trace_id, wait=False)]
    mine = (each for each in entries if isinstance(each, TaskProgress) and each.task_id == claim.lease.task_id)
    return [(e.state, e.worker) for each in mine for e in each.events if isinstance(e, StateChanged) and each.attempt]


async def record(fleet, claim):
    return await fleet.transport.record(claim.lease.task_id)


async def held(fleet, *asks: str, **fields):
    await fleet.submit(**fields)
    claim = await fleet.claim_one()
    await fleet.transport.hold(claim.lease, frozenset(asks))
    return claim


async def test_a_task_that_holds_its_slot_waits_to_everybody_and_runs_to_its_lease(fleet):
    claim = await held(fleet, "ask_1", "ask_2")

    seen = await record(fleet, claim)
    assert (seen.state, seen.worker, seen.waits_for) == (State.WAITING, "w1", ("ask_1", "ask_2"))
    assert [pool.running for pool in await fleet.transport.stats(["explore"])] == [1]
    keeper = fleet.transport.keeper()
    assert keeper.renew([claim.lease]).lost == frozenset()
    keeper.close()
    await fleet.transport.emit(claim.lease, fleet.progress(claim))
    assert await fleet.transport.reserve(claim.lease, 0) is not None
    await fleet.finish(claim)
    assert (await record(fleet, claim)).state is State.COMPLETED


async def test_it_goes_on_with_the_last_answer_in_the_same_attempt(fleet):
    claim = await held(fleet, "ask_1", "ask_2")

    await fleet.transport.answer(claim.lease.task_id, "ask_2", "yes", by="ann")
    assert (await record(fleet, claim)).waits_for == ("ask_1",)
    await fleet.transport.answer(claim.lease.task_id, "ask_1", "no", by="ann")

    seen = await record(fleet, claim)
    assert (seen.state, seen.worker, seen.attempt, seen.waits_for) == (State.RUNNING, "w1", 1, ())
    assert await told(fleet, claim) == [(State.RUNNING, "w1"), (State.WAITING, "w1"), (State.RUNNING, "w1")]
    assert await fleet.transport.claim("explore", "w2", slots=1, wait_s=0) == []
    await fleet.finish(claim)


async def test_each_time_it_says_all_that_it_waits_for(fleet):
    claim = await held(fleet, "ask_1")

    await fleet.transport.hold(claim.lease, frozenset({"ask_2"}))
    assert (await record(fleet, claim)).waits_for == ("ask_2",)
    await fleet.transport.hold(claim.lease, frozenset())

    assert (await record(fleet, claim)).state is State.RUNNING
    assert await told(fleet, claim) == [(State.RUNNING, "w1"), (State.WAITING, "w1"), (State.RUNNING, "w1")]


async def test_what_is_answered_already_is_not_waited_for(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.answer(claim.lease.task_id, "ask_1", "yes", by="ann")

    await fleet.transport.hold(claim.lease, frozenset({"ask_1"}))

    assert (await record(fleet, claim)).state is State.RUNNING
    assert await told(fleet, claim) == [(State.RUNNING, "w1")]


@pytest.mark.parametrize("leave", ["give_back", "retry", "park"])
async def test_whoever_lets_go_of_it_waits_for_nothing(fleet, leave: str):
    claim = await held(fleet, "ask_1")
    transport, lease = fleet.transport, claim.lease

    match leave:
        case "give_back":
            await transport.give_back(lease)
        case "retry":
            await transport.retry(lease, delay_ms=1, reason="odd")
        case _:
            await transport.park(lease, Wait(asks=frozenset({"other"})))
            await transport.answer(lease.task_id, "other", "yes", by="ann")

    again = await fleet.claim_one("w2")
    seen = await record(fleet, again)
    assert (seen.state, seen.worker, seen.waits_for, seen.attempt) == (State.RUNNING, "w2", (), 2)
    await fleet.transport.answer(lease.task_id, "ask_1", "yes", by="ann")  # is nobody's any more
    assert (await record(fleet, again)).attempt == 2
    await fleet.finish(again)


async def test_a_lost_worker_waits_for_nothing(hasty_fleet):
    claim = await held(hasty_fleet, "ask_1")

    again = await hasty_fleet.claim_one("w2")

    seen = await record(hasty_fleet, again)
    assert (again.lease.task_id, again.lost_leases) == (claim.lease.task_id, 1)
    assert (seen.state, seen.waits_for) == (State.RUNNING, ())


async def test_one_that_is_cancelled_is_told_by_its_keeper(fleet):
    claim = await held(fleet, "ask_1")

    assert await fleet.transport.cancel(claim.lease.task_id, by="ann", reason="enough") == 1

    keeper = fleet.transport.keeper()
    assert keeper.renew([claim.lease]).cancelled == {claim.lease.task_id: "enough"}
    keeper.close()
    assert (await record(fleet, claim)).state is State.WAITING
    await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.CANCELLED))
    assert (await record(fleet, claim)).waits_for == ()


async def test_more_money_lets_it_go_on(fleet):
    claim = await held(fleet, ask_for_more(100), budget={"max_cost_microusd": 100})
    assert (await record(fleet, claim)).waits_for == (ask_for_more(100),)

    await fleet.transport.raise_cap(claim.lease.trace_id, 200, by="ann")

    assert (await record(fleet, claim)).state is State.RUNNING


async def test_only_who_holds_the_lease_holds_the_task(fleet):
    claim = await held(fleet, "ask_1")

    with pytest.raises(Fenced):
        await fleet.transport.hold(replace(claim.lease, attempt=7), frozenset())
    assert (await record(fleet, claim)).state is State.WAITING
