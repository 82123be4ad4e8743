"""What every transport promises about writing under a lease, held against each implementation, on the store's time."""

from __future__ import annotations

import pytest

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import Entry
from transport.errors import Fenced


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


async def test_a_task_ends_with_its_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()

    sent = await fleet.finish(claim, "found it")

    record = await fleet.transport.record(request.task_id)
    assert await fleet.transport.result(request.task_id) == sent
    assert (record.state, record.worker) == (State.COMPLETED, "w1")
    assert record.finished_at_ms >= record.started_at_ms >= record.accepted_at_ms


async def test_finishing_again_is_safe_and_makes_no_second_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.finish(claim, "first")
    await fleet.finish(claim, "second")

    entries = await collect(fleet.transport.follow(request.trace_id))

    results = [entry.message for entry in entries if isinstance(entry.message, TaskResult)]
    assert [result.output.text for result in results] == ["first"]


async def test_what_is_told_with_the_end_stands_right_before_it_and_is_charged_once(fleet):
    request = await fleet.submit(budget={"max_cost_microusd": 100})
    claim, other = await fleet.claim_one(), await fleet.submit(trace_id=request.trace_id)
    await fleet.transport.reserve(claim.lease, 20)
    told = {"progress": fleet.progress(claim, "last words"), "charge_microusd": 7}

    for _ in range(2):  # the second is a repetition
        assert await fleet.transport.finish(claim.lease, fleet.result(claim), **told)

    *_, before, end = await collect(fleet.transport.follow(request.trace_id))
    ledger = await fleet.transport.reserve((await fleet.claim_one()).lease, 1)
    assert [event.text for event in before.message.events] == ["last words"]
    assert isinstance(end.message, TaskResult)
    assert end.message.task_id != other.task_id
    assert (ledger.spent_microusd, ledger.reserved_microusd) == (7, 1)


async def test_what_a_zombie_tells_with_its_end_is_not_told(hasty_fleet):
    fleet = hasty_fleet
    request = await fleet.submit()
    zombie = await fleet.claim_one("zombie")
    heir = await fleet.claim_one("heir")  # comes when the zombie's lease is over

    with pytest.raises(Fenced):
        await fleet.transport.finish(zombie.lease, fleet.result(zombie), progress=fleet.progress(zombie, "too late"))
    await fleet.transport.finish(heir.lease, fleet.result(heir), progress=fleet.progress(heir, "in time"))

    entries = await collect(fleet.transport.follow(request.trace_id))
    events = [event for entry in entries[:-1] for event in entry.message.events]
    assert [event.text for event in events if event.kind == "text"] == ["in time"]


async def test_a_zombie_can_write_nothing(hasty_fleet):
    fleet = hasty_fleet
    request = await fleet.submit()
    zombie = await fleet.claim_one("zombie")
    heir = await fleet.claim_one("heir")  # comes when the zombie's lease is over

    assert (heir.lease.task_id, heir.lease.attempt, heir.lost_leases) == (request.task_id, 2, 1)
    for write in (
        fleet.transport.emit(zombie.lease, fleet.progress(zombie), charge_microusd=5),
        fleet.transport.checkpoint(zombie.lease, "sha256:0"),
        fleet.transport.give_back(zombie.lease),
        fleet.transport.finish(zombie.lease, fleet.result(zombie, "too late")),
    ):
        with pytest.raises(Fenced):
            await write
    assert fleet.transport.keeper().renew([zombie.lease]).lost == {request.task_id}

    await fleet.finish(heir, "in time")
    assert (await fleet.transport.result(request.task_id)).output.text == "in time"
    assert (await fleet.transport.counters())["fenced_writes"] == 4
    assert (await fleet.transport.counters())["lost_leases"] == 1


async def test_the_same_worker_under_an_older_attempt_is_a_zombie_too(hasty_fleet):
    await hasty_fleet.submit()
    first = await hasty_fleet.claim_one("w")
    await hasty_fleet.claim_one("w")

    with pytest.raises(Fenced):
        await hasty_fleet.finish(first)


async def test_a_write_for_a_task_that_is_not_there_is_fenced(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.finish(claim)

    with pytest.raises(Fenced):
        await fleet.transport.emit(claim.lease, fleet.progress(claim))


async def test_a_checkpoint_is_handed_to_the_next_attempt(fleet):
    await fleet.submit()
    first = await fleet.claim_one()
    blob = await fleet.transport.blobs.put(b"the messages so far")
    await fleet.transport.checkpoint(first.lease, blob)
    await fleet.transport.give_back(first.lease)

    second = await fleet.claim_one()

    assert (first.checkpoint, second.checkpoint) == (None, blob)
    assert await fleet.transport.blobs.get(blob) == b"the messages so far"


async def test_a_checkpoint_reports_charges_and_tells_what_came_in(fleet):
    await fleet.submit(budget={"max_cost_microusd": 100})
    claim = await fleet.claim_one()
    blob = await fleet.transport.blobs.put(b"the messages so far")
    await fleet.transport.reserve(claim.lease, 40)
    await fleet.transport.prompt(claim.lease.task_id, "and the tests?", by="ann")
    progress = fleet.progress(claim)

    saved = await fleet.transport.checkpoint(
        claim.lease, blob, progress=progress, charge_microusd=30, release_microusd=40
    )
    again = await fleet.transport.checkpoint(claim.lease, blob, heard=1)

    assert (saved.ledger.spent_microusd, saved.ledger.cap_microusd, saved.ledger.reserved_microusd) == (30, 100, 0)
    assert [prompt.text for prompt in saved.prompts] == ["and the tests?"]
    assert (again.ledger, again.prompts) == (saved.ledger, ())
    entries = [entry.message async for entry in fleet.transport.follow(claim.lease.trace_id, wait=False)]
    assert entries.count(progress) == 1


async def test_charges_add_up_in_the_traces_ledger(fleet):
    root = await fleet.submit(budget={"max_cost_microusd": 100})
    await fleet.transport.submit([fleet.child(root)])
    one, two = await fleet.transport.claim("explore", "w", slots=2, wait_s=0)

    ledger = await fleet.transport.emit(one.lease, fleet.progress(one), charge_microusd=60)
    assert (ledger.spent_microusd, ledger.cap_microusd, ledger.exhausted) == (60, 100, "")
    ledger = await fleet.transport.emit(two.lease, fleet.progress(two), charge_microusd=40)
    assert (ledger.spent_microusd, ledger.exhausted) == (100, "trace")


async def test_a_trace_without_a_cap_is_never_exhausted(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()

    ledger = await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=10**12)

    assert (ledger.cap_microusd, ledger.exhausted) == (None, "")


async def test_a_task_given_back_is_the_next_to_start_and_counts_no_loss(fleet):
    trace = new_trace_id()
    first, _ = [await fleet.submit(trace_id=trace) for _ in range(2)]
    claim = await fleet.claim_one()
    await fleet.transport.give_back(claim.lease)

    again = await fleet.claim_one()

    assert (again.lease.task_id, again.lease.attempt, again.lost_leases) == (first.task_id, 2, 0)
