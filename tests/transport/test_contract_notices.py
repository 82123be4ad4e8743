"""What others outside are told: noticed once by the whole fleet, kept until it has arrived."""

from __future__ import annotations

import asyncio

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from transport.base import Wait
from transport.notices import Happening, Kind, Notice

# Of one cell: each is told by itself.
CELLS = 1
SENDING_MS = 60_000
PATIENCE_S = 10.0


def notice(name: str = "msg_1") -> Notice:
    return Notice(name, "chat", "task.ended", '{"type":"task.ended"}', 5)


@pytest.fixture
async def told(fleet):
    """Somebody who has begun to listen."""
    [notices] = fleet.transport.notices
    await notices.read(wait_s=0.001)
    return notices


@pytest.fixture
async def kept(fleet, told):
    """A notice that waits to be sent."""
    await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    news = await told.read(wait_s=PATIENCE_S)
    assert await told.take(news, [notice()])
    return told


async def test_nobody_is_told_of_what_was_before(fleet):
    await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    [notices] = fleet.transport.notices

    assert (await notices.read(wait_s=0.001)).happenings == ()


async def test_what_a_task_asks_that_keeps_its_slot_is_noticed(fleet, told):
    request = await fleet.submit()
    claim = await fleet.claim_one()

    await fleet.transport.hold(claim.lease, frozenset({"ask_1"}))

    [asked] = (await told.read(wait_s=PATIENCE_S)).happenings
    assert (asked.kind, asked.task_id, asked.asks) == (Kind.ASKED, request.task_id, ("ask_1",))


async def test_ends_dead_letters_and_asks_are_noticed(fleet, told):
    request = await fleet.submit()
    waiting = await fleet.claim_one()
    await fleet.transport.park(waiting.lease, Wait(asks=frozenset({"ask_1"})))
    dead = await fleet.submit()
    claim = await fleet.claim_one()
    said = {"trace_id": dead.trace_id, "task_id": dead.task_id, "attempt": 1}
    error = ErrorInfo.of(ErrorCode.BAD_INPUT, "it is nothing")
    await fleet.transport.finish(claim.lease, TaskResult(**said, status=State.ERROR, errors=(error,)), dead="nothing")

    seen: dict[Kind, Happening] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < 3:
            news = await told.read(wait_s=PATIENCE_S)
            seen |= {each.kind: each for each in news.happenings}
            assert await told.take(news, [])

    assert (seen[Kind.ASKED].task_id, seen[Kind.ASKED].asks) == (request.task_id, ("ask_1",))
    assert (seen[Kind.DEAD].task_id, seen[Kind.DEAD].code, seen[Kind.DEAD].why) == (
        dead.task_id,
        "bad_input",
        "nothing",
    )
    assert seen[Kind.ENDED].task_id == dead.task_id
    assert abs(seen[Kind.ENDED].at_ms - await fleet.transport.now_ms()) < 60_000


async def test_a_read_waits_for_what_happens_next(fleet, told):
    reading = asyncio.create_task(told.read(wait_s=PATIENCE_S))
    request = await fleet.submit()
    await fleet.finish(await fleet.claim_one())

    assert [each.task_id for each in (await reading).happenings] == [request.task_id]


async def test_of_two_who_read_the_same_one_writes_it_down(fleet, told):
    await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    first, second = await told.read(wait_s=PATIENCE_S), await told.read(wait_s=PATIENCE_S)

    assert first == second
    assert [await told.take(first, [notice()]), await told.take(second, [notice("msg_2")])] == [True, False]
    assert [one.id for one in await told.waiting(10)] == ["msg_1"]
    assert (await told.read(wait_s=0.001)).happenings == ()


async def test_a_notice_is_given_to_one_and_comes_back_when_nothing_is_heard_of_it(kept):
    first = await kept.due(limit=10, sending_ms=1)
    async with asyncio.timeout(PATIENCE_S):
        while not (again := await kept.due(limit=10, sending_ms=SENDING_MS)).notices:
            pass
    meanwhile = await kept.due(limit=10, sending_ms=SENDING_MS)

    assert [(one.id, one.body, one.tries) for one in first.notices] == [("msg_1", notice().body, 1)]
    assert [one.tries for one in again.notices] == [2]
    assert meanwhile.notices == () and 0 < (meanwhile.next_ms or 0) <= SENDING_MS


async def test_what_has_arrived_is_not_sent_again_however_often_it_is_noticed(fleet, kept):
    [one] = (await kept.due(limit=10, sending_ms=SENDING_MS)).notices
    await kept.sent(one)
    await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    await kept.take(await kept.read(wait_s=PATIENCE_S), [notice()])

    assert await kept.due(limit=10, sending_ms=SENDING_MS) == await kept.due(limit=10, sending_ms=SENDING_MS)
    assert (await kept.due(limit=10, sending_ms=SENDING_MS)).next_ms is None
    assert (await kept.waiting(10), await kept.given_up(10)) == ([], [])


async def test_what_failed_waits_and_at_last_is_given_up_until_somebody_says_again(kept):
    [one] = (await kept.due(limit=10, sending_ms=SENDING_MS)).notices
    await kept.failed(one, "503", again_in_ms=0)
    [again] = (await kept.due(limit=10, sending_ms=SENDING_MS)).notices
    await kept.failed(one, "too late", again_in_ms=None)  # of a try that is no longer the last
    assert [each.error for each in await kept.waiting(10)] == ["503"]
    await kept.failed(again, "410", again_in_ms=None)

    assert (await kept.due(limit=10, sending_ms=SENDING_MS)).next_ms is None
    assert [(each.id, each.error) for each in await kept.given_up(10)] == [("msg_1", "410")]
    assert [await kept.retry(["msg_1", "msg_none"]), await kept.retry(["msg_1"])] == [1, 0]
    [third] = (await kept.due(limit=10, sending_ms=SENDING_MS)).notices
    assert (third.tries, third.body) == (1, notice().body)
