"""What every transport promises about fairness, held against each implementation. Time is the store's own."""

from __future__ import annotations

from collections import Counter

import pytest

from envelope.codec import decode_request
from envelope.ids import new_trace_id
from envelope.messages import Priority

CELLS = 1  # each cell has a line of its own: turns and caps are exact within it


async def order_of_traces(fleet, names: dict[str, str], *, count: int) -> list[str]:
    claims = await fleet.transport.claim("explore", "w", slots=count, wait_s=0)
    return [names[claim.lease.trace_id] for claim in claims]


async def test_a_trace_of_ten_is_not_held_up_by_one_of_a_thousand(fleet):
    big, small = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=big) for _ in range(1000)])
    await fleet.transport.submit([fleet.request(trace_id=small) for _ in range(10)])

    started = await order_of_traces(fleet, {big: "big", small: "small"}, count=22)

    assert started.count("small") == 10


async def test_priorities_share_sixteen_to_four_to_one(fleet):
    names = {new_trace_id(): str(priority) for priority in Priority}
    for trace_id, priority in names.items():
        await fleet.transport.submit([fleet.request(trace_id=trace_id, priority=priority) for _ in range(200)])

    started = await order_of_traces(fleet, names, count=210)

    assert [started.count(name) for name in ("high", "normal", "low")] == pytest.approx([160, 40, 10], abs=2)


async def test_a_flow_that_was_away_gets_no_credit_for_it(fleet):
    steady, late = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=steady) for _ in range(60)])
    await fleet.transport.claim("explore", "w", slots=40, wait_s=0)
    await fleet.transport.submit([fleet.request(trace_id=late) for _ in range(20)])

    started = await order_of_traces(fleet, {steady: "steady", late: "late"}, count=20)

    assert started.count("steady") == pytest.approx(10, abs=1)


async def test_a_trace_that_submits_one_by_one_gains_nothing_by_it(fleet):
    steady, sly = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=steady) for _ in range(50)])
    started = []
    for _ in range(40):
        await fleet.transport.submit([fleet.request(trace_id=sly)])
        started += await order_of_traces(fleet, {steady: "steady", sly: "sly"}, count=1)

    assert started.count("steady") >= 19


async def test_tasks_of_one_trace_start_in_the_order_of_their_submission(fleet):
    trace = new_trace_id()
    requests = [fleet.request(trace_id=trace) for _ in range(10)]
    await fleet.transport.submit(requests)

    claims = await fleet.transport.claim("explore", "w", slots=10, wait_s=0)

    assert [claim.lease.task_id for claim in claims] == [request.task_id for request in requests]


async def test_traces_of_one_task_start_in_the_order_in_which_they_came(fleet):
    requests = [fleet.request() for _ in range(20)]
    await fleet.transport.submit(requests[:10])
    started = await fleet.transport.claim("explore", "w", slots=5, wait_s=0)
    await fleet.transport.submit(requests[10:])
    started += await fleet.transport.claim("explore", "w", slots=20, wait_s=0)

    assert [claim.lease.task_id for claim in started] == [request.task_id for request in requests]


async def test_a_tenant_with_ten_traces_gets_no_more_than_one_with_a_single_trace(fleet):
    many, one = [new_trace_id() for _ in range(10)], new_trace_id()
    for trace in many:
        await fleet.transport.submit([fleet.request(trace_id=trace, tenant="many") for _ in range(10)])
    await fleet.transport.submit([fleet.request(trace_id=one, tenant="one") for _ in range(20)])

    started = await order_of_traces(fleet, {one: "one", **dict.fromkeys(many, "many")}, count=40)

    assert started.count("one") == pytest.approx(20, abs=1)
    assert started[:20].count("one") == pytest.approx(10, abs=1)


async def test_a_tenant_gains_nothing_over_others_by_calling_everything_urgent(fleet):
    names = {new_trace_id(): name for name in ("urgent", "modest")}
    for trace, name in names.items():
        priority = Priority.HIGH if name == "urgent" else Priority.LOW
        await fleet.transport.submit([fleet.request(trace_id=trace, tenant=name, priority=priority) for _ in range(40)])

    started = await order_of_traces(fleet, names, count=40)

    assert started.count("modest") == pytest.approx(20, abs=1)


async def test_a_batch_of_a_thousand_shards_does_not_hold_up_a_later_goal(fleet):
    """Each shard is a trace of its own; they wait for one another, not others for them."""
    await fleet.transport.submit([fleet.request(batch_id="big") for _ in range(1000)])
    goal = new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=goal) for _ in range(10)])

    claims = await fleet.transport.claim("explore", "w", slots=22, wait_s=0)

    assert [claim.lease.trace_id for claim in claims].count(goal) == 10


async def test_who_has_enough_may_be_passed_over(fleet):
    for tenant in ("ann", "bob", "ann"):
        await fleet.transport.submit([fleet.request(trace_id=new_trace_id(), tenant=tenant) for _ in range(3)])

    others = await fleet.transport.claim("explore", "w", slots=5, wait_s=0, but_of=["ann"])
    all_that_is_left = await fleet.transport.claim("explore", "w", slots=10, wait_s=0)

    tenants = [[decode_request(claim.envelope).tenant for claim in claims] for claims in (others, all_that_is_left)]
    assert tenants == [["bob"] * 3, ["ann"] * 6]


async def test_the_shards_of_a_batch_start_in_the_order_of_their_submission(fleet):
    requests = [fleet.request(batch_id="b") for _ in range(10)]
    await fleet.transport.submit(requests)

    claims = await fleet.transport.claim("explore", "w", slots=10, wait_s=0)

    assert [claim.lease.task_id for claim in claims] == [request.task_id for request in requests]


async def test_a_tenant_that_was_away_gets_no_credit_for_it(fleet):
    names = {new_trace_id(): name for name in ("steady", "late")}
    steady, late = names
    await fleet.transport.submit([fleet.request(trace_id=steady, tenant="steady") for _ in range(60)])
    await fleet.transport.claim("explore", "w", slots=40, wait_s=0)
    await fleet.transport.submit([fleet.request(trace_id=late, tenant="late") for _ in range(20)])

    started = await order_of_traces(fleet, names, count=20)

    assert started.count("steady") == pytest.approx(10, abs=1)


async def test_shares_do_not_depend_on_how_many_are_claimed_at_once(fleet):
    traces = {new_trace_id(): priority for priority in Priority for _ in range(5)}
    for pool in ("explore", "build"):
        requests = [
            fleet.request(recipient=pool, trace_id=trace_id, priority=priority, tenant=f"tenant{int(trace_id, 16) % 3}")
            for trace_id, priority in traces.items()
            for _ in range(2 if priority is Priority.LOW else 60)  # some flows run empty on the way
        ]
        await fleet.transport.submit(requests)

    started = {"explore": Counter[str](), "build": Counter[str]()}
    for pool, slots in (("explore", 1), ("build", 30)):
        while started[pool].total() < 240:
            claims = await fleet.transport.claim(pool, "w", slots=slots, wait_s=0)
            started[pool].update(claim.lease.trace_id for claim in claims)

    for trace_id in traces:
        assert started["explore"][trace_id] == pytest.approx(started["build"][trace_id], abs=1)
