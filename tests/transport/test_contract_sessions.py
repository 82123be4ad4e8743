"""What every transport promises about sessions: one runner each, prompts that are heard. For each implementation."""

from __future__ import annotations

import pytest

from envelope.events import StateChanged
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from transport.bounds import MAX_INBOX_BYTES, MAX_PROMPTS, MAX_WORDS_BYTES
from transport.errors import Busy, Fenced, NotFound, QueueFull, Refused

BLOB, LATER_BLOB = "sha256:" + "0" * 64, "sha256:" + "1" * 64


async def opened(fleet, worker: str = "w1"):
    """A session under way, with a checkpoint."""
    await fleet.submit()
    claim = await fleet.claim_one(worker)
    await fleet.transport.checkpoint(claim.lease, BLOB)
    return claim


def going_on(fleet, claim, **fields):
    """A request that continues the session which the claim's task opened."""
    task_id, trace_id = claim.lease.task_id, claim.lease.trace_id
    return fleet.request(resume_token=task_id, trace_id=new_trace_id(near=trace_id), **fields)


async def texts(fleet, lease) -> list[str]:
    return [prompt.text for prompt in await fleet.transport.inbox(lease)]


# -- going on with one


async def test_a_session_that_has_ended_is_continued_from_its_last_checkpoint(fleet):
    first = await opened(fleet)
    await fleet.transport.checkpoint(first.lease, LATER_BLOB)
    await fleet.finish(first)

    await fleet.transport.submit([going_on(fleet, first)])
    second = await fleet.claim_one()

    assert (first.session, second.session, second.checkpoint) == (None, LATER_BLOB, None)


async def test_a_continued_session_goes_on_from_the_newer_task(fleet):
    first = await opened(fleet)
    await fleet.finish(first)
    await fleet.transport.submit([going_on(fleet, first)])
    second = await fleet.claim_one()
    await fleet.transport.checkpoint(second.lease, LATER_BLOB)
    await fleet.transport.give_back(second.lease)

    again = await fleet.claim_one()
    assert (again.session, again.checkpoint) == (None, LATER_BLOB)  # its own is all it needs
    await fleet.finish(again)
    await fleet.transport.submit([going_on(fleet, first)])
    assert (await fleet.claim_one()).session == LATER_BLOB


async def test_a_session_that_is_under_way_has_no_second_runner(fleet):
    first = await opened(fleet)
    second = going_on(fleet, first)

    with pytest.raises(Busy) as refusal:
        await fleet.transport.submit([second])

    assert (refusal.value.field, refusal.value.holder) == ("resume_token", first.lease.task_id)
    with pytest.raises(NotFound):
        await fleet.transport.record(second.task_id)


async def test_a_session_is_held_from_the_submission_on(fleet):
    first = await opened(fleet)
    await fleet.finish(first)
    second = going_on(fleet, first)
    await fleet.transport.submit([second])

    with pytest.raises(Busy) as refusal:
        await fleet.transport.submit([going_on(fleet, first)])
    assert refusal.value.holder == second.task_id
    await fleet.transport.cancel(second.task_id, by="me", reason="no")
    await fleet.transport.submit([going_on(fleet, first)])  # free again


async def test_a_session_knows_the_task_that_had_it_last(fleet):
    first = await opened(fleet)
    session = first.lease.task_id
    assert await fleet.transport.session_task(session) == session
    await fleet.finish(first)
    second = going_on(fleet, first)

    await fleet.transport.submit([second])
    at_work = await fleet.transport.session_task(session)
    await fleet.transport.cancel(second.task_id, by="me", reason="no")

    assert (at_work, await fleet.transport.session_task(session)) == (second.task_id, second.task_id)
    nobodys = new_task_id()
    assert await fleet.transport.session_task(nobodys) == nobodys


async def test_submitting_the_holder_again_is_not_busy(fleet):
    first = await opened(fleet)
    await fleet.finish(first)
    key = "once"
    second = going_on(fleet, first, idempotency_key=key)
    await fleet.transport.submit([second])

    (same,) = await fleet.transport.submit([second])
    (keyed,) = await fleet.transport.submit([going_on(fleet, first, idempotency_key=key)])

    assert (same.task_id, keyed.task_id) == (second.task_id, second.task_id)
    assert (same.existing, keyed.existing) == (False, True)


async def test_of_two_in_one_batch_that_want_a_session_none_gets_it(fleet):
    first = await opened(fleet)
    await fleet.finish(first)

    with pytest.raises(Busy):
        await fleet.transport.submit([going_on(fleet, first), going_on(fleet, first)])
    assert await fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []


async def test_a_session_that_never_was_is_refused(fleet):
    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([fleet.request(resume_token=new_task_id())])

    assert refusal.value.field == "resume_token"
    assert not isinstance(refusal.value, Busy)


async def test_a_session_without_a_checkpoint_cannot_be_continued(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    with pytest.raises(Busy):  # its opener may still make one
        await fleet.transport.submit([going_on(fleet, claim)])
    await fleet.finish(claim)

    with pytest.raises(Refused, match="no session"):
        await fleet.transport.submit([going_on(fleet, claim)])


async def test_a_session_of_another_tenant_is_not_known(fleet):
    first = await opened(fleet)
    for end in (None, fleet.finish):  # neither while it is under way nor afterwards
        if end:
            await end(first)
        with pytest.raises(Refused) as refusal:
            await fleet.transport.submit([going_on(fleet, first, tenant="nosy")])
        assert not isinstance(refusal.value, Busy)


async def test_a_poisoned_or_given_up_session_can_be_continued(hasty_fleet):
    fleet = hasty_fleet
    first = await opened(fleet)
    for _ in range(3):  # the last look ends it
        await fleet.transport.claim("explore", "w", slots=1, wait_s=2)
    assert (await fleet.ended(first.lease.task_id)).status is State.ERROR

    await fleet.transport.submit([going_on(fleet, first)])

    assert (await fleet.claim_one()).session == BLOB


# -- prompts


async def test_a_prompt_reaches_the_inbox_of_the_task_that_runs_the_session(fleet):
    claim = await opened(fleet)

    handle = await fleet.transport.prompt(claim.lease.task_id, "and the tests? é", by="ann")

    assert (handle.task_id, handle.trace_id) == (claim.lease.task_id, claim.lease.trace_id)
    (prompt,) = await fleet.transport.inbox(claim.lease)
    assert (prompt.text, prompt.by) == ("and the tests? é", "ann")
    assert claim.accepted_at_ms <= prompt.at_ms <= await fleet.transport.now_ms()


async def test_prompts_stay_until_a_checkpoint_holds_them(fleet):
    claim = await opened(fleet)
    session = claim.lease.task_id
    for word in ("one", "two", "three"):
        await fleet.transport.prompt(session, word, by="me")

    await fleet.transport.checkpoint(claim.lease, BLOB)
    assert await texts(fleet, claim.lease) == ["one", "two", "three"]
    await fleet.transport.checkpoint(claim.lease, BLOB, heard=2)
    assert await texts(fleet, claim.lease) == ["three"]


async def test_an_unheard_prompt_waits_for_the_next_attempt(fleet):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "still there?", by="me")
    await fleet.transport.give_back(claim.lease)

    again = await fleet.claim_one()

    assert await texts(fleet, again.lease) == ["still there?"]


async def test_a_queued_or_waiting_task_gets_prompts_too(fleet):
    request = await fleet.submit()
    handle = await fleet.transport.prompt(request.task_id, "before it starts", by="me")

    assert handle.task_id == request.task_id
    assert await texts(fleet, (await fleet.claim_one()).lease) == ["before it starts"]


async def test_a_task_does_not_end_with_a_prompt_that_nobody_heard(fleet):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "one more thing", by="me")

    assert not await fleet.transport.finish(claim.lease, fleet.result(claim, "done"))

    assert await fleet.transport.result(claim.lease.task_id) is None
    again = await fleet.claim_one()
    assert (again.lease.task_id, again.lease.attempt, again.lost_leases) == (claim.lease.task_id, 2, 0)
    await fleet.transport.checkpoint(again.lease, LATER_BLOB, heard=1)
    assert await fleet.transport.finish(again.lease, fleet.result(again, "now it is"))
    assert (await fleet.transport.result(claim.lease.task_id)).output.text == "now it is"
    reasons = [
        event.reason
        async for entry in fleet.transport.follow(claim.lease.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if isinstance(event, StateChanged)
    ]
    assert "a prompt came in" in reasons


async def test_who_was_sent_on_by_a_prompt_holds_no_lease(fleet):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "wait", by="me")
    await fleet.transport.finish(claim.lease, fleet.result(claim))

    with pytest.raises(Fenced):
        await fleet.transport.finish(claim.lease, fleet.result(claim))


async def test_a_task_that_will_not_hear_a_prompt_is_sent_on_once_for_it(fleet):
    claim = await opened(fleet)
    for word in ("one", "two"):
        await fleet.transport.prompt(claim.lease.task_id, word, by="me")
        assert not await fleet.transport.finish(claim.lease, fleet.result(claim))
        claim = await fleet.claim_one()

    assert await texts(fleet, claim.lease) == ["one", "two"]
    assert await fleet.transport.finish(claim.lease, fleet.result(claim, "deaf"))


@pytest.mark.parametrize("status", [State.ERROR, State.EXPIRED])
async def test_a_task_that_fails_ends_whatever_is_in_its_inbox(fleet, status):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "go on", by="me")

    assert await fleet.transport.finish(claim.lease, fleet.result(claim, status=status))

    assert (await fleet.transport.result(claim.lease.task_id)).status is status


async def test_a_task_that_ends_while_it_is_cancelled_is_not_sent_on(fleet):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "go on", by="me")
    await fleet.transport.cancel(claim.lease.task_id, by="me", reason="stop")

    assert await fleet.transport.finish(claim.lease, fleet.result(claim, "as it happens"))

    assert (await fleet.transport.result(claim.lease.task_id)).output.text == "as it happens"


async def test_the_next_runner_of_a_session_does_not_hear_what_the_last_one_missed(fleet):
    claim = await opened(fleet)
    await fleet.transport.prompt(claim.lease.task_id, "too late", by="me")
    await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.ERROR))
    await fleet.transport.submit([going_on(fleet, claim)])

    assert await texts(fleet, (await fleet.claim_one()).lease) == []


async def test_a_prompt_goes_to_whoever_runs_the_session_now(fleet):
    first = await opened(fleet)
    await fleet.finish(first)
    second = going_on(fleet, first)
    await fleet.transport.submit([second])

    handle = await fleet.transport.prompt(first.lease.task_id, "and now?", by="me")

    assert handle.task_id == second.task_id
    assert await texts(fleet, (await fleet.claim_one()).lease) == ["and now?"]
    with pytest.raises(NotFound):  # its own id names no session: it continues another
        await fleet.transport.prompt(second.task_id, "you?", by="me")


async def test_a_session_that_nobody_runs_takes_no_prompt(fleet):
    claim = await opened(fleet)
    await fleet.finish(claim)

    for session in (claim.lease.task_id, new_task_id()):
        with pytest.raises(NotFound):
            await fleet.transport.prompt(session, "hello?", by="me")


async def test_an_inbox_is_read_under_the_lease(fleet):
    claim = await opened(fleet)
    await fleet.transport.give_back(claim.lease)

    with pytest.raises(Fenced):
        await fleet.transport.inbox(claim.lease)


async def test_a_full_inbox_takes_no_prompt_until_its_session_has_heard_some(fleet):
    claim = await opened(fleet)
    session = claim.lease.task_id
    for number in range(MAX_PROMPTS):
        await fleet.transport.prompt(session, str(number), by="me")

    with pytest.raises(QueueFull) as refusal:
        await fleet.transport.prompt(session, "one more", by="me")

    assert refusal.value.retry_after_s > 0
    assert await texts(fleet, claim.lease) == [str(number) for number in range(MAX_PROMPTS)]
    await fleet.transport.checkpoint(claim.lease, BLOB, heard=1)
    await fleet.transport.prompt(session, "one more", by="me")


@pytest.mark.parametrize("letter", ["x", "é", "\x01", "/", "\x7f"])
async def test_an_inbox_holds_so_many_bytes_as_they_are_stored(fleet, letter):
    claim = await opened(fleet)
    session, each_bytes = claim.lease.task_id, {"x": 1, "é": 2, "/": 2}.get(letter, 6)
    words = letter * (200_000 // each_bytes)
    for _ in range(MAX_INBOX_BYTES // 200_000):
        await fleet.transport.prompt(session, words, by="me")

    with pytest.raises(QueueFull, match="nobody has heard"):
        await fleet.transport.prompt(session, words, by="me")

    await fleet.transport.prompt(session, "a short one", by="me")
    assert (await texts(fleet, claim.lease))[-1] == "a short one"
    await fleet.transport.checkpoint(claim.lease, BLOB, heard=1)
    await fleet.transport.prompt(session, words, by="me")


async def test_an_inbox_is_full_to_the_byte_in_every_transport(fleet):
    claim = await opened(fleet)
    session, around = claim.lease.task_id, len('{"text":"","by":"me","at_ms":1234567890123}')
    for _ in range(3):
        await fleet.transport.prompt(session, "x" * (MAX_WORDS_BYTES - 2), by="me")
    left = MAX_INBOX_BYTES - 3 * (MAX_WORDS_BYTES - 2 + around) - 2 * around - 100

    await fleet.transport.prompt(session, "x" * 100, by="me")
    with pytest.raises(QueueFull):
        await fleet.transport.prompt(session, "x" * (left + 1), by="me")
    await fleet.transport.prompt(session, "x" * left, by="me")
