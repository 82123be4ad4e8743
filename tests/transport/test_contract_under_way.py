"""Promises of every transport about listings: live roots, and tasks that wait for people."""

from __future__ import annotations

import asyncio

import pytest
from lab.waiting import past_the_moment

from envelope.lifecycle import State
from transport.base import Wait
from transport.errors import Refused
from transport.raising import ask_for_more, ask_for_more_of_tenant

CELLS = 1


async def live(fleet, **fields) -> list[str]:
    return [record.task_id for record in (await fleet.transport.live_roots(**fields)).records]


async def asking(fleet, **fields) -> list[str]:
    return [record.task_id for record in (await fleet.transport.asking(**fields)).records]


async def parked(fleet, *asks: str, **fields):
    """The claim of a task that has parked with these asks."""
    await fleet.submit(**fields)
    claim = await fleet.claim_one()
    assert await fleet.transport.park(claim.lease, Wait(asks=frozenset(asks)))
    return claim


async def walk(listing, **fields) -> list[str]:
    found, cursor = [], ""
    while True:
        page = await listing(after=cursor, limit=3, **fields)
        assert len(page.records) <= 3
        found += [record.task_id for record in page.records]
        if not (cursor := page.cursor):
            return found


# -- live roots


async def test_a_root_is_listed_from_its_acceptance_to_its_end(fleet):
    root = await fleet.submit(tenant="ann")
    await fleet.transport.submit([fleet.child(root, tenant="ann"), fleet.request(tenant="bob")])
    assert await live(fleet, tenant="ann") == [root.task_id]
    assert (await fleet.transport.live_roots()).total == 2

    claim = await fleet.claim_one()
    assert await live(fleet, tenant="ann") == [root.task_id]
    await fleet.finish(claim)

    assert await live(fleet, tenant="ann") == []
    [left] = (await fleet.transport.live_roots()).records
    assert left.tenant == "bob"


@pytest.mark.parametrize("end", ["cancelled in line", "told to stop", "cancelled while it waits", "expired", "error"])
async def test_however_a_root_ends_it_is_listed_no_longer(fleet, end: str):
    transport = fleet.transport
    match end:
        case "cancelled in line":
            await transport.cancel((await fleet.submit()).task_id, by="ann", reason="enough")
        case "told to stop":
            await fleet.submit()
            claim = await fleet.claim_one()
            await transport.cancel(claim.lease.task_id, by="ann", reason="enough")
            assert len(await live(fleet)) == 1
            await transport.give_back(claim.lease)
        case "cancelled while it waits":
            await transport.cancel((await parked(fleet, "ask_1")).lease.task_id, by="ann", reason="enough")
        case "expired":
            request = await fleet.submit(deadline_ms=1)
            await past_the_moment(fleet.transport)
            await past_the_moment(fleet.transport)
            await transport.reap()
            assert (await transport.record(request.task_id)).state is State.EXPIRED
        case _:
            await fleet.submit()
            claim = await fleet.claim_one()
            await transport.finish(claim.lease, fleet.result(claim, status=State.ERROR), dead="it cannot be read")

    assert await live(fleet) == []
    assert (await transport.live_roots()).total == 0
    assert await asking(fleet) == []


async def test_live_roots_are_walked_through_latest_first_and_each_once(fleet):
    requests = [fleet.request(tenant="ann") for _ in range(7)]
    await fleet.transport.submit(requests[:4])
    await past_the_moment(fleet.transport)
    await fleet.transport.submit(requests[4:])
    await fleet.transport.cancel(requests[0].task_id, by="ann", reason="enough")

    found = await walk(fleet.transport.live_roots, tenant="ann")

    assert sorted(found) == sorted(request.task_id for request in requests[1:])
    assert set(found[:3]) == {request.task_id for request in requests[4:]}
    assert await live(fleet, tenant="nobody") == []


async def test_shards_are_listed_apart_from_what_people_began(fleet):
    batch = await fleet.submit(tenant="ann")
    shards = [fleet.request(tenant="ann", batch_id=batch.task_id) for _ in range(5)]
    await fleet.transport.submit(shards)

    assert await live(fleet, shards=False) == [batch.task_id]
    assert sorted(await walk(fleet.transport.live_roots, shards=True)) == sorted(shard.task_id for shard in shards)
    assert len(await walk(fleet.transport.live_roots, tenant="ann")) == 6
    assert (await fleet.transport.live_roots(tenant="ann")).total == 6

    await fleet.transport.cancel(shards[0].task_id, by="ann", reason="enough")
    assert (await fleet.transport.live_roots(shards=True, limit=1)).total == 4


# -- tasks that wait for people


async def test_a_task_is_listed_while_it_waits_for_people(fleet):
    claim = await parked(fleet, "ask_1", "ask_2", tenant="ann")
    other = await parked(fleet, "ask_3", tenant="bob")
    assert await asking(fleet, tenant="ann") == [claim.lease.task_id]
    assert sorted(await asking(fleet)) == sorted([claim.lease.task_id, other.lease.task_id])
    assert await asking(fleet, trace_id=other.lease.trace_id) == [other.lease.task_id]
    [record] = (await fleet.transport.asking(tenant="ann")).records
    assert (record.state, record.waits_for) == (State.WAITING, ("ask_1", "ask_2"))

    await fleet.transport.answer(claim.lease.task_id, "ask_2", "yes", by="ann")
    assert await asking(fleet, tenant="ann") == [claim.lease.task_id]
    await fleet.transport.answer(claim.lease.task_id, "ask_1", "yes", by="ann")

    assert await asking(fleet, tenant="ann") == []
    assert (await fleet.transport.asking()).total == 1


async def test_who_waits_longest_is_first_and_nobody_is_missed(fleet):
    claims = []
    for _ in range(7):
        claims.append(await parked(fleet, "ask_1"))
        await past_the_moment(fleet.transport)
    ids = [claim.lease.task_id for claim in claims]
    assert await walk(fleet.transport.asking) == ids

    first = await fleet.transport.asking(limit=3)
    await fleet.transport.answer(ids[0], "ask_1", "yes", by="ann")
    again = await fleet.claim_one()  # it asks anew, while somebody reads
    await fleet.transport.park(again.lease, Wait(asks=frozenset({"ask_2"})))

    rest = await fleet.transport.asking(after=first.cursor, limit=10)
    assert [record.task_id for record in rest.records] == [*ids[3:], ids[0]]


async def test_who_waits_for_children_alone_is_not_listed(fleet):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    child = fleet.child(root)
    await fleet.transport.submit([child])
    await fleet.transport.park(claim.lease, Wait(children=frozenset({child.task_id}), asks=frozenset({"ask_1"})))
    assert await asking(fleet) == [root.task_id]

    await fleet.transport.answer(root.task_id, "ask_1", "yes", by="ann")

    assert (await fleet.transport.record(root.task_id)).state is State.WAITING
    assert await asking(fleet) == []
    assert (await fleet.transport.asking()).total == 0
    assert [pool.parked for pool in await fleet.transport.stats(["explore"])] == [1]
    await fleet.finish(await fleet.claim_one())
    assert [pool.parked for pool in await fleet.transport.stats(["explore"])] == [0]


@pytest.mark.parametrize("waits", ["parks", "holds"])
async def test_who_waits_for_money_is_listed(fleet, waits: str):
    await fleet.transport.fund("ann", 50, by="ann")
    for ask, tenant in ((ask_for_more(100), "bob"), (ask_for_more_of_tenant(50), "ann")):
        await fleet.submit(tenant=tenant, budget={"max_cost_microusd": 100})
        claim = await fleet.claim_one()
        if waits == "parks":
            await fleet.transport.park(claim.lease, Wait(asks=frozenset({ask})))
        else:
            await fleet.transport.hold(claim.lease, frozenset({ask}))
        assert await asking(fleet, tenant=tenant) == [claim.lease.task_id]
        if tenant == "bob":
            await fleet.transport.raise_cap(claim.lease.trace_id, 200, by="ann")

    assert await asking(fleet, tenant="bob") == []
    await fleet.transport.fund("ann", None, by="ann")
    assert await asking(fleet) == []


async def test_who_holds_its_slot_keeps_its_place_among_those_that_wait(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.hold(claim.lease, frozenset({"ask_1", "ask_2"}))
    await past_the_moment(fleet.transport)
    other = await parked(fleet, "ask_3")
    await past_the_moment(fleet.transport)

    await fleet.transport.hold(claim.lease, frozenset({"ask_2"}))
    assert await asking(fleet) == [claim.lease.task_id, other.lease.task_id]
    await fleet.transport.hold(claim.lease, frozenset())
    assert await asking(fleet) == [other.lease.task_id]

    await fleet.transport.hold(claim.lease, frozenset({"ask_4"}))
    await fleet.transport.answer(claim.lease.task_id, "ask_4", "yes", by="ann")
    assert await asking(fleet) == [other.lease.task_id]


@pytest.mark.parametrize("leaves", ["finish", "give_back", "retry", "park for a child", "cancel and finish"])
async def test_whoever_lets_go_of_its_slot_waits_for_nobody(fleet, leaves: str):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    child = fleet.child(root, recipient="build", agent="build")
    await fleet.transport.submit([child])
    await fleet.transport.hold(claim.lease, frozenset({"ask_1"}))
    assert await asking(fleet) == [root.task_id]

    match leaves:
        case "finish":
            await fleet.finish(claim)
        case "give_back":
            await fleet.transport.give_back(claim.lease)
        case "retry":
            await fleet.transport.retry(claim.lease, delay_ms=1, reason="odd")
        case "park for a child":
            await fleet.transport.park(claim.lease, Wait(children=frozenset({child.task_id})))
        case _:
            await fleet.transport.cancel(root.task_id, by="ann", reason="enough")
            assert await asking(fleet) == [root.task_id]  # until it has heard
            await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.CANCELLED))

    assert await asking(fleet) == []


async def test_a_lost_worker_asks_nothing(hasty_fleet):
    await hasty_fleet.submit()
    claim = await hasty_fleet.claim_one()
    await hasty_fleet.transport.hold(claim.lease, frozenset({"ask_1"}))

    await hasty_fleet.claim_one("w2")

    assert await asking(hasty_fleet) == []


@pytest.mark.parametrize("goes_on", ["its time", "a word", "its parent's end"])
async def test_who_goes_on_without_an_answer_is_listed_no_longer(fleet, goes_on: str):
    root = await fleet.submit(recipient="build", agent="build")
    parent = await fleet.claim_one(pool="build")
    await fleet.transport.submit([fleet.child(root)])
    claim = await fleet.claim_one()
    now_ms = await fleet.transport.now_ms()
    until_ms = now_ms + 1 if goes_on == "its time" else None
    assert await fleet.transport.park(claim.lease, Wait(asks=frozenset({"ask_1"}), until_ms=until_ms, first=True))
    assert await asking(fleet) == [claim.lease.task_id]

    match goes_on:
        case "its time":
            await past_the_moment(fleet.transport)
            await past_the_moment(fleet.transport)
            await fleet.transport.reap()
        case "a word":
            await fleet.transport.prompt(claim.lease.task_id, "go on", by="ann")
        case _:
            await fleet.finish(parent)

    assert await asking(fleet) == []


# -- dead letters


async def test_a_tenants_dead_letter_is_found_among_a_thousand_of_others(fleet):
    await fleet.submit(tenant="ann")
    mine = await fleet.claim_one()
    await fleet.transport.finish(mine.lease, fleet.result(mine, status=State.ERROR), dead="it cannot be read")
    await fleet.transport.submit([fleet.request(tenant="bob") for _ in range(1_001)])
    while claims := await fleet.transport.claim("explore", "w1", slots=1_001, wait_s=0):
        ends = ((claim.lease, fleet.result(claim, status=State.ERROR)) for claim in claims)
        await asyncio.gather(*(fleet.transport.finish(lease, result, dead="no") for lease, result in ends))

    [letter] = await fleet.transport.dead_letters(tenant="ann")

    assert (letter.task_id, letter.tenant) == (mine.lease.task_id, "ann")
    assert len(await fleet.transport.dead_letters(tenant="bob", limit=2_000)) == 1_001
    assert await fleet.transport.dead_letters(tenant="nobody") == []


@pytest.mark.parametrize("listing", ["live_roots", "asking"])
async def test_what_is_no_cursor_is_refused(fleet, listing: str):
    with pytest.raises(Refused, match="cursor"):
        await getattr(fleet.transport, listing)(after="x")
