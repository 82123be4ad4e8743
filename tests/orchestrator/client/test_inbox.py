"""What waits for people, in one place: what one trace is about hides nothing of the others."""

from __future__ import annotations

from typing import Any

import pytest
from lab.waiting import past_the_moment

from envelope.budget import Budget
from envelope.events import AskAnswered, AskOpened, TextDelta
from orchestrator import ask_texts
from orchestrator.ask_texts import AskTexts
from orchestrator.asks import asks_of, find_ask
from orchestrator.client import Muster
from orchestrator.inbox import TASKS_AT_ONCE, inbox_of
from transport.base import TaskRecord, Wait
from transport.raising import ask_for_more, ask_for_more_of_tenant

PUSH = AskOpened(ask_id="ask_push", permission="bash", patterns=("git push",))
LOG = AskOpened(ask_id="ask_log", permission="bash", patterns=("git log",))
PLAN = AskOpened(ask_id="ask_plan", permission="plan_exit")
CAP = 1_000_000
AGENT = {"pool": "build", "auth_scope": ("read:**",)}


class Forgetful:
    """A fleet's server after a failover that has lost a trace, whose records somebody has read just before."""

    def __init__(self, transport: Any, forgotten: str) -> None:
        self._transport, self._forgotten = transport, forgotten

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> Any:
        is_forgotten = trace_id == self._forgotten and limit == 1  # by which a trace's root is looked for
        return [] if is_forgotten else await self._transport.tasks(trace_id=trace_id, limit=limit)


class Counting:
    """Counts the entries that are read of traces."""

    def __init__(self, transport: Any) -> None:
        self._transport, self.read = transport, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def follow(self, trace_id: str, **options: Any) -> Any:
        async for entry in self._transport.follow(trace_id, **options):
            self.read += 1
            yield entry


async def out_of_money(stage, *asks: str) -> str:
    """A trace that waits for a cap to be raised; its id."""
    work = await stage.work("spend", **AGENT, budget=Budget(max_cost_microusd=CAP, waits_at_cap=True))
    assert await stage.transport.park(work.lease, Wait(asks=frozenset(asks or {ask_for_more(CAP)})))
    return work.lease.trace_id


async def test_a_trace_that_is_gone_hides_nothing_of_the_others(any_stage):
    gone, stays = [await out_of_money(any_stage) for _ in range(2)]
    plan = await any_stage.work("plan it", **AGENT)
    await plan.ask(PLAN)
    for forgotten, left in ((gone, [stays]), (plan.lease.trace_id, [gone, stays])):
        muster = Muster(Forgetful(any_stage.transport, forgotten), any_stage.muster.settings)  # pyright: ignore[reportArgumentType]
        inbox = await inbox_of(muster, None)
        assert {one.root.trace_id for one in inbox.money if one.root} == set(left)
        assert [one.ask for one in inbox.asks] == [PLAN]


async def test_money_is_asked_for_once_for_all_that_wait_for_the_same_cap(any_stage):
    await any_stage.muster.cap_tenant("default", CAP)
    both = [await out_of_money(any_stage, ask_for_more_of_tenant(CAP)) for _ in range(2)]
    own = await out_of_money(any_stage)
    inbox = await inbox_of(any_stage.muster, None)

    asked = {one.name: sorted(task.trace_id for task in one.tasks) for one in inbox.money}
    assert asked == {"tenant-default": sorted(both), f"trace-{own}": [own]}


async def test_who_asks_again_what_is_open_reads_only_what_has_happened_since(any_stage):
    counting = Counting(any_stage.transport)
    muster = Muster(counting, any_stage.muster.settings)  # pyright: ignore[reportArgumentType]
    work, other = [await any_stage.work(prompt, **AGENT) for prompt in ("push", "read")]
    for number in range(20):
        await work.tell(TextDelta(text=f"{number} "))
    await work.ask(PUSH)
    [first] = await muster.asks()
    assert counting.read > 20
    counting.read = 0

    [again] = await muster.asks()
    assert (again, again.since_ms, counting.read) == (first, first.since_ms, 0)
    await other.ask(PLAN)
    assert {one.ask.ask_id for one in await muster.asks()} == {PUSH.ask_id, PLAN.ask_id}


async def test_that_holds_however_many_ask(memory_stage):
    counting = Counting(memory_stage.transport)
    muster = Muster(counting, memory_stage.muster.settings)  # pyright: ignore[reportArgumentType]
    for number in range(50):
        await (await memory_stage.work(f"push {number}", **AGENT)).ask(PUSH)
    assert len(await muster.asks()) == 50
    counting.read = 0

    assert len(await muster.asks()) == 50
    assert counting.read == 0


async def test_who_looks_for_one_ask_reads_of_its_trace_alone_and_once(any_stage):
    counting = Counting(any_stage.transport)
    work, other = [await any_stage.work(prompt, **AGENT) for prompt in ("push", "plan")]
    await work.ask(PUSH)
    for number in range(20):
        await other.tell(TextDelta(text=f"{number} "))
    await other.ask(PLAN)
    texts = AskTexts(counting)  # pyright: ignore[reportArgumentType]

    assert (await find_ask(counting, PUSH.ask_id, texts)).ask == PUSH  # pyright: ignore[reportArgumentType]
    assert 0 < counting.read < 20
    counting.read = 0
    assert (await find_ask(counting, PUSH.ask_id, texts)).ask == PUSH  # pyright: ignore[reportArgumentType]
    assert counting.read == 0


async def asked_before_it_is_over(stage) -> tuple[TaskRecord, AskTexts]:
    """Two asks of a task, as somebody has read of them who asks for their texts again only later."""
    work, texts = await stage.work("push", **AGENT), AskTexts(stage.transport)
    await work.tell(PUSH, LOG)
    assert await stage.transport.park(work.lease, Wait(asks=frozenset((PUSH.ask_id, LOG.ask_id))))
    record = await stage.transport.record(work.task_id)
    assert [one.ask for one in await asks_of([record], texts)] == [PUSH, LOG]
    return record, texts


async def test_an_ask_that_is_over_keeps_its_text_for_who_has_read_that_it_is_open(any_stage):
    record, texts = await asked_before_it_is_over(any_stage)
    await both_answered(any_stage, record)

    assert [one.ask for one in await asks_of([record], texts)] == [PUSH, LOG]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_of_asks_that_are_over_only_the_latest_keep_their_texts(any_stage, monkeypatch, is_cancelled):
    monkeypatch.setattr(ask_texts, "KEPT_OVER", 1)
    record, texts = await asked_before_it_is_over(any_stage)
    if is_cancelled:
        await any_stage.muster.cancel(record.task_id)
    else:
        await both_answered(any_stage, record)

    assert list(await texts.of(record.trace_id)) == [(record.task_id, LOG.ask_id)]


async def both_answered(stage, record: TaskRecord) -> None:
    """And its task has told so."""
    for one in (PUSH, LOG):
        await stage.transport.answer(record.task_id, one.ask_id, "once", by="me")
    again = await stage.claimed()
    await again.tell(*(AskAnswered(ask_id=one.ask_id, answer="once", by="me") for one in (PUSH, LOG)))


async def test_a_page_of_the_inbox_says_how_many_wait_and_how_to_go_on(any_stage):
    for number in range(TASKS_AT_ONCE + 1):
        await past_the_moment(any_stage.transport)
        work = await any_stage.work("ask", **AGENT)
        await work.ask(LOG.model_copy(update={"ask_id": f"ask_{number}"}))

    first = await inbox_of(any_stage.muster, None)
    rest = await inbox_of(any_stage.muster, None, after=first.cursor)

    assert (first.count, first.tasks) == (TASKS_AT_ONCE, TASKS_AT_ONCE + 1)
    assert [one.ask.ask_id for one in rest.asks] == [f"ask_{TASKS_AT_ONCE}"]
    assert rest.cursor == ""
