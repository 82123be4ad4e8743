"""What every transport promises about tasks that are put off to be tried again, held against each implementation."""

from __future__ import annotations

from envelope.events import StateChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from transport.base import Entry


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


def told(entries: list[Entry], task_id: str) -> list[StateChanged]:
    """What the queue said of a task's state, in order."""
    return [
        event
        for entry in entries
        if isinstance(entry.message, TaskProgress) and entry.message.task_id == task_id
        for event in entry.message.events
        if isinstance(event, StateChanged)
    ]


async def test_a_retried_task_starts_again_after_its_pause(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    asked_at_ms = await fleet.transport.now_ms()
    await fleet.transport.retry(claim.lease, delay_ms=200, reason="the model is overloaded")

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []
    assert (await fleet.transport.stats(["explore"]))[0].ready == 0
    again = await fleet.claim_one()

    assert again.started_at_ms >= asked_at_ms + 200
    assert (again.lease.attempt, again.retries, again.lost_leases) == (2, 1, 0)
    assert (await fleet.transport.record(again.lease.task_id)).retries == 1
    assert (await fleet.transport.counters())["retries"] == 1


async def test_a_retry_tells_its_reason(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.retry(claim.lease, delay_ms=0, reason="the sandbox did not start")
    await fleet.finish(await fleet.claim_one())

    changes = told(await collect(fleet.transport.follow(claim.lease.trace_id)), claim.lease.task_id)

    assert [change.reason for change in changes] == ["", "", "the sandbox did not start", ""]


async def test_a_task_that_was_put_off_can_be_cancelled_and_expires(fleet):
    cancelled, late = await fleet.submit(), await fleet.submit(deadline_ms=100)
    claims = await fleet.transport.claim("explore", "w", slots=2, wait_s=0)
    for claim in claims:
        await fleet.transport.retry(claim.lease, delay_ms=60_000, reason="later")

    assert await fleet.transport.cancel(cancelled.task_id, by="me", reason="no") == 1
    assert await fleet.transport.claim("build", "any", slots=1, wait_s=0.4) == []

    assert (await fleet.transport.result(cancelled.task_id)).status is State.CANCELLED
    assert (await fleet.ended(late.task_id)).status is State.EXPIRED
    assert (await fleet.transport.stats(["explore"]))[0].ready == 0


async def test_a_task_that_is_cancelled_is_not_tried_again(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.cancel(claim.lease.task_id, by="me", reason="no")

    await fleet.transport.retry(claim.lease, delay_ms=0, reason="later")

    assert (await fleet.transport.result(claim.lease.task_id)).status is State.CANCELLED
    assert "retries" not in await fleet.transport.counters()
