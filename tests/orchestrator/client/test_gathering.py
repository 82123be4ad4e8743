"""When enough results are there, and which one counts."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Metrics
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Output, TaskResult
from orchestrator.client import Muster
from orchestrator.errors import BadInput
from orchestrator.gathering import Policy, Want
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from transport.keyring import fresh
from transport.memory import MemoryTransport


def result(
    text: str = "", *, status: State = State.COMPLETED, cost: int = 0, turns: int = 0, structured=None
) -> TaskResult:
    return TaskResult(
        trace_id=new_trace_id(),
        task_id=new_task_id(),
        attempt=1,
        status=status,
        output=Output(text=text, structured=structured),
        metrics=Metrics(cost_microusd=cost, turns=turns),
    )


FAILED = result(status=State.ERROR)


def test_all_is_never_met_early_and_chooses_none():
    want = Want()
    assert not want.is_met([result(), result()])
    assert want.chosen([result()]) is None


def test_first_is_the_first_that_completed():
    want, good = Want(Policy.FIRST), result("yes")
    assert not want.is_met([FAILED])
    assert want.is_met([FAILED, good])
    assert want.chosen([FAILED, good, result()]) is good


def test_best_is_verified_then_cheap_and_waits_for_all():
    want = Want(Policy.BEST)
    verified = [result(structured={"verified": True}, cost=cost) for cost in (9, 5)]
    boast = result(cost=1, turns=3, structured={"verified": True})  # an agent's own word
    ended = [boast, FAILED, *verified]
    assert not want.is_met(ended)
    assert want.chosen(ended) is verified[1]
    assert want.chosen(ended[:2]) is ended[0]
    assert want.chosen([FAILED]) is None


def test_a_quorum_is_of_equal_answers():
    want = Want(Policy.QUORUM, 2)
    ended = [result("Yes,  it is"), result("no"), FAILED, FAILED]
    assert not want.is_met(ended)
    assert want.chosen([*ended, result("yes, it\nis")]) is ended[0]
    same = [result(structured={"a": 1, "b": 2}), result("other words", structured={"b": 2, "a": 1})]
    assert want.chosen(same) is same[0]


@pytest.mark.parametrize("want", [Want(Policy.QUORUM), Want(quorum=1), Want(Policy.QUORUM, 4), Want(Policy.QUORUM, -1)])
def test_a_quorum_that_cannot_be_is_refused(want):
    with pytest.raises(BadInput):
        want.checked(3)


@pytest.fixture
async def asked():
    """Three tasks that nobody works on yet, and who can end them."""
    transport = MemoryTransport(keyring=fresh())
    muster = Muster(transport, Settings())
    requests = [task_request(agent="explore", pool="explore", auth_scope=(), deadline_ms=60_000) for _ in range(3)]
    handles = await muster.submit_many(requests)
    claims = {claim.lease.task_id: claim for claim in await transport.claim("explore", "w", slots=3, wait_s=5)}

    async def end(number: int, text: str, status: State = State.COMPLETED) -> None:
        lease = claims[handles[number].task_id].lease
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        await transport.finish(lease, TaskResult(**said, status=status, output=Output(text=text)))

    return muster, handles, end


async def test_gather_waits_for_all_in_the_order_of_the_handles(asked):
    muster, handles, end = asked
    gathering = asyncio.create_task(muster.gather(handles))
    for number in (2, 0, 1):
        await end(number, str(number))
    gathered = await gathering
    assert [one.output.text for one in gathered] == ["0", "1", "2"]
    assert gathered.missing == ()


async def test_gather_ends_with_the_first_and_cancels_the_rest_where_asked(asked):
    muster, handles, end = asked
    gathering = asyncio.create_task(muster.gather(handles, Want(Policy.FIRST), cancel_missing=True))
    await end(1, "mine", State.ERROR)
    await end(2, "me")
    gathered = await gathering
    assert gathered.chosen is not None and gathered.chosen.output.text == "me"
    assert gathered.missing == (handles[0],)
    assert (await muster.record(handles[0].task_id)).cancel_reason


async def test_gather_tells_who_is_missing_when_its_time_is_over(asked):
    muster, handles, end = asked
    await end(1, "in time")
    gathered = await muster.gather(handles, timeout_s=0.2)
    assert [one.output.text for one in gathered] == ["in time"]
    assert gathered.missing == (handles[0], handles[2])
    assert not (await muster.record(handles[0].task_id)).cancel_reason
