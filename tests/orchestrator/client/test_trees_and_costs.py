"""`Muster.run`, `resume`, `tree` and `cost`."""

from __future__ import annotations

import dataclasses

import pytest

from envelope.budget import Budget, Usage
from envelope.events import TurnFinished, TurnStarted
from envelope.lifecycle import State
from envelope.messages import Output, TaskProgress, TaskResult
from orchestrator.budgets import share_cap
from orchestrator.families import children_of
from orchestrator.session.task import Spent
from transport.base import Claim, Wait
from transport.consumer import Delivery
from transport.errors import Busy, NotFound, Refused
from transport.money import Ledger
from transport.raising import ask_for_more

FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": ("read:**",)}
USED = Usage(input_tokens=900, output_tokens=100)


async def claimed(stage) -> Claim:
    [claim] = await stage.transport.claim("build", "w", slots=1, wait_s=5)
    return claim


def names(claim: Claim) -> dict:
    return {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": claim.lease.attempt}


async def turn(stage, claim: Claim, model: str, cost: int, seq: int = 0) -> None:
    events = (
        TurnStarted(turn=1, model=model),
        TurnFinished(turn=1, finish_reason="stop", usage=USED, cost_microusd=cost),
    )
    progress = TaskProgress(**names(claim), seq=seq, at_ms=1, status=State.RUNNING, events=events)
    await stage.transport.emit(claim.lease, progress, charge_microusd=cost)


async def finish(stage, claim: Claim, *, with_session: bool = True) -> None:
    if with_session:
        await stage.transport.checkpoint(claim.lease, await stage.transport.blobs.put(b"a session"))
    await stage.transport.finish(claim.lease, TaskResult(**names(claim), status=State.COMPLETED))


async def test_a_task_is_run_to_its_result_and_watched_on_the_way(any_stage):
    seen = []

    async def work(delivery: Delivery) -> TaskResult:
        return TaskResult(**names(delivery.claim), status=State.COMPLETED, output=Output(text="done"))

    async with any_stage.serving("build", work):
        result = await any_stage.muster.run(**FIELDS, prompt="work", watch=seen.append)

    assert result.output.text == "done"
    assert seen[-1].message == result
    states = [event.state for entry in seen[:-1] for event in entry.message.events]
    assert states == [State.PENDING, State.RUNNING]


async def test_a_session_that_has_ended_is_resumed_with_new_limits_and_one_under_way_is_busy(any_stage):
    first = await any_stage.muster.submit(**FIELDS, prompt="work", budget=Budget(max_cost_microusd=5))
    claim = await claimed(any_stage)
    await turn(any_stage, claim, "a/model", 5)
    await any_stage.transport.checkpoint(claim.lease, await any_stage.transport.blobs.put(b"a session"))
    with pytest.raises(Busy):
        await any_stage.muster.resume(first.task_id)
    assert len(await any_stage.muster.tasks()) == 1
    await finish(any_stage, claim)

    plain = await any_stage.muster.resume(first.task_id)
    request = await any_stage.muster.request(plain.task_id)
    with pytest.raises(Busy):
        await any_stage.muster.resume(first.task_id)
    await finish(any_stage, await claimed(any_stage))
    more = await any_stage.muster.resume(first.task_id, "and tests", budget=Budget(max_cost_microusd=9), deadline_ms=7)
    with_more = await any_stage.muster.request(more.task_id)

    assert (request.resume_token, request.input.prompt, request.intent) == (first.task_id, "", "work")
    assert (request.budget.max_cost_microusd, request.deadline_ms) == (5, 60_000)
    assert (with_more.input.prompt, with_more.budget.max_cost_microusd, with_more.deadline_ms) == ("and tests", 9, 7)


async def test_a_task_that_never_got_to_a_session_cannot_be_resumed(any_stage):
    handle = await any_stage.muster.submit(**FIELDS)
    await finish(any_stage, await claimed(any_stage), with_session=False)

    with pytest.raises(Refused):
        await any_stage.muster.resume(handle.task_id)


async def test_a_tree_is_a_snapshot_and_the_next_one_goes_on_from_it(any_stage):
    handle = await any_stage.muster.submit(**FIELDS, prompt="work")
    before = await any_stage.muster.tree(handle.trace_id)
    claim = await claimed(any_stage)
    await turn(any_stage, claim, "a/model", 5)
    after = await any_stage.muster.tree(handle.trace_id)

    assert (before.root_task.state, before.root_task.title) == (State.PENDING, "work")
    assert (after.root_task.state, after.root_task.model) == (State.RUNNING, "a/model")
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.root_task.turn = 2
    with pytest.raises(NotFound, match="there is no trace"):
        await any_stage.muster.tree("0" * 32)


async def test_the_cost_is_told_by_model_and_agent_against_the_cap_with_what_is_set_aside(any_stage):
    handle = await any_stage.muster.submit(**FIELDS, budget=Budget(max_cost_microusd=100))
    claim = await claimed(any_stage)
    await turn(any_stage, claim, "a/model", 5)
    await turn(any_stage, claim, "b/model", 7, seq=1)
    title = TaskProgress(**names(claim), seq=2, at_ms=1, status=State.RUNNING)
    await any_stage.transport.emit(claim.lease, title, charge_microusd=1)
    await any_stage.transport.reserve(claim.lease, 30)

    cost = await any_stage.muster.cost(handle.trace_id)

    assert cost.ledger == Ledger(13, 100, 30)
    assert cost.by_model == {"a/model": Spent(USED, 5), "b/model": Spent(USED, 7), "others": Spent(cost_microusd=1)}
    assert cost.by_agent == {"build": Spent(USED + USED, 12), "others": Spent(cost_microusd=1)}
    assert (cost.spent_microusd, cost.reserved) == (13, {handle.task_id: 30})


async def test_a_batchs_money_is_its_shards_and_a_raise_is_shared_by_those_that_live(any_stage):
    muster, transport = any_stage.muster, any_stage.transport
    batch = await muster.submit(
        agent="batch", pool="orchestrator", deadline_ms=60_000, auth_scope=(), budget=Budget(max_cost_microusd=90)
    )
    share = Budget(max_cost_microusd=30)
    shards = [await muster.submit(**FIELDS, batch_id=batch.task_id, budget=share) for _ in range(3)]
    claims = {claim.lease.task_id: claim for claim in await transport.claim("build", "w", slots=3, wait_s=5)}
    ended, waiting, working = (claims[shard.task_id] for shard in shards)
    await turn(any_stage, ended, "a/model", 10)
    await finish(any_stage, ended)
    await transport.park(waiting.lease, Wait(asks=frozenset({ask_for_more(30)})))
    await transport.reserve(working.lease, 7)

    before = await muster.budget(batch.trace_id)
    await muster.raise_budget(batch.trace_id, 110)
    assert await shared(any_stage, batch, 110)
    after = await muster.budget(batch.trace_id)

    assert before.ledger == Ledger(10, 90, 7)
    assert (before.waiting, before.reserved) == ((shards[1].task_id,), {shards[2].task_id: 7})
    assert after.ledger == Ledger(10, 110, 7)
    assert [after.parts[shard.task_id].cap_microusd for shard in shards] == [30, 50, 50]
    assert after.waiting == ()


async def test_shards_with_unequal_parts_may_spend_no_more_than_the_raised_cap(any_stage):
    muster, transport = any_stage.muster, any_stage.transport
    batch = await muster.submit(
        agent="batch", pool="orchestrator", deadline_ms=60_000, auth_scope=(), budget=Budget(max_cost_microusd=110)
    )
    parts = [Budget(max_cost_microusd=cap) for cap in (100, 10)]  # one was given what others had left over
    shards = [await muster.submit(**FIELDS, batch_id=batch.task_id, budget=part) for part in parts]

    caps: list[list[int | None]] = []
    for cap, kept in ((120, 0), (120, 0), (130, 0), (150, 10)):
        await muster.raise_budget(batch.trace_id, cap)
        assert await shared(any_stage, batch, cap, kept_microusd=kept)
        caps.append([(await transport.ledger(shard.trace_id)).cap_microusd for shard in shards])

    assert caps == [[105, 15], [105, 15], [110, 20], [115, 25]]


async def test_a_raise_that_nobody_can_use_is_shared_later(any_stage):
    batch = await any_stage.muster.submit(
        agent="batch", pool="orchestrator", deadline_ms=60_000, auth_scope=(), budget=Budget(max_cost_microusd=110)
    )

    assert not await shared(any_stage, batch, 120)


async def shared(stage, batch, cap_microusd, *, kept_microusd=0) -> bool:
    """As the batch's driver does, which sees that its cap was raised."""
    root = await stage.transport.record(batch.task_id)
    shards = await children_of(stage.transport, root)
    return await share_cap(stage.transport, root, shards, cap_microusd, kept_microusd=kept_microusd)


async def test_a_cap_that_was_lowered_meanwhile_is_not_raised_again_by_who_may_only_lower_it(any_stage):
    muster = any_stage.muster
    await muster.cap_tenant("ann", 100, only_lower=True)
    await muster.cap_tenant("ann", 10)  # by the operator, after `ann` has read 100

    caps = [(await muster.cap_tenant("ann", cap, only_lower=True)).cap_microusd for cap in (100, None, 5)]

    assert caps == [10, 10, 5]
    assert (await muster.tenant_budget("ann")).cap_microusd == 5
