"""What every transport promises about answers to a task's asks, held against each implementation."""

from __future__ import annotations

import asyncio

import pytest

from envelope.ids import new_task_id
from transport.approvals import Answer
from transport.base import Wait
from transport.errors import NotFound


async def test_a_task_that_is_not_there_has_no_answers(fleet):
    with pytest.raises(NotFound):
        await fleet.transport.answers(new_task_id())


async def test_an_answer_wakes_the_task_that_asked(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.park(claim.lease, Wait(asks=frozenset({"may-i"})))
    assert (await fleet.transport.record(claim.lease.task_id)).waits_for == ("may-i",)

    given = await fleet.transport.answer(claim.lease.task_id, "may-i", "yes", by="ann")

    assert (given.text, given.by) == ("yes", "ann")
    assert (await fleet.claim_one()).lease.task_id == claim.lease.task_id
    assert await fleet.transport.answers(claim.lease.task_id) == {"may-i": given}


async def test_of_two_answers_the_first_stands(fleet):
    request = await fleet.submit()
    answers = await asyncio.gather(
        *(fleet.transport.answer(request.task_id, "q", f"text {n}", by=f"p{n}") for n in range(5))
    )

    assert len(set(answers)) == 1
    assert await fleet.transport.answers(request.task_id) == {"q": answers[0]}


async def test_an_ask_that_was_answered_already_is_not_waited_for(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.answer(claim.lease.task_id, "q", "yes", by="me")

    assert not await fleet.transport.park(claim.lease, Wait(asks=frozenset({"q"})))
    assert await fleet.transport.park(claim.lease, Wait(asks=frozenset({"q", "r"})))


async def test_answers_outlive_the_attempt_and_the_task(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    given = await fleet.transport.answer(claim.lease.task_id, "q", "yes, 100 %: é", by="me")
    await fleet.transport.give_back(claim.lease)
    await fleet.finish(await fleet.claim_one())

    assert isinstance(given, Answer)
    assert given.text == "yes, 100 %: é"
    assert await fleet.transport.answers(claim.lease.task_id) == {"q": given}


async def test_a_task_that_has_ended_takes_no_answer(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.finish(claim)

    with pytest.raises(NotFound):
        await fleet.transport.answer(claim.lease.task_id, "q", "too late", by="me")
    with pytest.raises(NotFound):
        await fleet.transport.answer(new_task_id(), "q", "to nobody", by="me")
