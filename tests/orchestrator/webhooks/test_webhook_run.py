"""Webhooks end to end: something happens in a fleet, and a receiver outside hears of it until it has heard it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskProgress, TaskResult
from orchestrator.submit import BATCH, DRIVERS, task_request
from orchestrator.webhooks import run
from orchestrator.webhooks.config import Webhook
from orchestrator.webhooks.links import PATH, Links, link_keys
from orchestrator.webhooks.run import run_webhooks
from transport.base import Wait
from transport.notices import News, Notice
from transport.raising import ask_for_more, ask_for_more_of_tenant

PUSH = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push",), detail="git push origin main")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(run, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(run, "LOOK_S", 0.05)  # what a person sends again is found by looking


@asynccontextmanager
async def telling(stage, receiver, **fields):
    """An orchestrator's webhooks, once they listen."""
    hooks = {"chat": Webhook.model_validate(receiver.hook(**fields))}
    for notices in stage.transport.notices:
        await notices.read(wait_s=0.001)
    task = asyncio.create_task(run_webhooks(stage.transport, hooks, public_url="https://muster.example/"))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def submitted(stage, **fields):
    fields = {"agent": "build", "pool": "build", "auth_scope": (), "deadline_ms": 600_000, **fields}
    request = task_request(**fields)
    await stage.transport.submit([request])
    [claim] = await stage.transport.claim(request.recipient, "w", slots=1, wait_s=5)
    return request, claim


async def finish(stage, claim, *errors, text="done", dead=""):
    lease = claim.lease
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    status = State.ERROR if errors else State.COMPLETED
    result = TaskResult(**said, status=status, errors=errors, output=Output(text=text))
    await stage.transport.finish(lease, result, dead=dead)


async def ask(stage, claim, *names: str, event: AskOpened = PUSH) -> None:
    lease = claim.lease
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    progress = TaskProgress(**said, seq=0, at_ms=1, status=State.RUNNING, events=(event,))
    await stage.transport.emit(lease, progress)
    assert await stage.transport.park(lease, Wait(asks=frozenset(names)))


async def test_an_end_is_told_signed_and_without_keys(any_stage, receiver, secret):
    async with telling(any_stage, receiver):
        request, claim = await submitted(any_stage, intent="nightly", tenant="acme")
        await finish(any_stage, claim, text="the key is sk-abcdefghijklmnop1234")
        [got] = await receiver.first(1)

    assert got.is_signed_with(secret)
    assert (got.said["type"], got.said["timestamp"].endswith("Z")) == ("task.ended", True)
    assert got.said["data"] == {
        "task_id": request.task_id,
        "trace_id": request.trace_id,
        "agent": "build",
        "intent": "nightly",
        "tenant": "acme",
        "status": "completed",
        "text": "the key is [redacted]",
        "errors": [],
        "cost_microusd": 0,
    }


async def test_what_happens_is_told_by_its_own_name(any_stage, receiver):
    """Neither a child nor a batch's shard is told: they are parts of something."""
    async with telling(any_stage, receiver):
        asking, claim = await submitted(any_stage)
        await ask(any_stage, claim, PUSH.ask_id)
        poor, claim = await submitted(any_stage)
        await ask(any_stage, claim, ask_for_more(5))
        await any_stage.transport.fund(poor.tenant, 7, by="ann")
        poorer, claim = await submitted(any_stage)
        await ask(any_stage, claim, ask_for_more_of_tenant(7))
        batch, claim = await submitted(any_stage, agent=BATCH, pool=DRIVERS)
        _, shard = await submitted(any_stage, batch_id=batch.task_id)
        await finish(any_stage, shard)
        await finish(any_stage, claim)
        dead, claim = await submitted(any_stage)
        await finish(any_stage, claim, ErrorInfo.of(ErrorCode.BAD_INPUT, "nonsense"), dead="it cannot be read")
        got = await receiver.first(6)

    heard = {(one.said["type"], one.said["data"]["task_id"]): one.said["data"] for one in got}
    assert set(heard) == {
        ("ask.opened", asking.task_id),
        ("budget.reached", poor.task_id),
        ("budget.reached", poorer.task_id),
        ("batch.ended", batch.task_id),
        ("task.ended", dead.task_id),
        ("task.dead", dead.task_id),
    }
    assert len({one.id for one in got}) == 6
    assert heard["ask.opened", asking.task_id]["ask"]["detail"] == "git push origin main"
    assert "answer_url" not in heard["ask.opened", asking.task_id]
    money = [heard["budget.reached", task.task_id] for task in (poor, poorer)]
    assert [(one["cap_microusd"], one["of"]) for one in money] == [(5, "trace"), (7, "tenant")]
    assert heard["task.dead", dead.task_id]["why"] == "it cannot be read"
    assert heard["task.ended", dead.task_id]["errors"][0]["code"] == "bad_input"


async def test_only_what_it_asked_for_of_its_tenants_is_told(any_stage, receiver):
    async with telling(any_stage, receiver, events=["task.ended"], tenants=["acme"]):
        _, claim = await submitted(any_stage)
        await finish(any_stage, claim)
        _, claim = await submitted(any_stage, tenant="acme")
        await ask(any_stage, claim, PUSH.ask_id)
        heard, claim = await submitted(any_stage, tenant="acme")
        await finish(any_stage, claim)
        [got] = await receiver.first(1)

    assert (got.said["type"], got.said["data"]["task_id"]) == ("task.ended", heard.task_id)


async def test_it_is_sent_again_under_the_same_id_until_it_arrives(any_stage, receiver):
    receiver.answers = [500, 503, 200]
    async with telling(any_stage, receiver):
        _, claim = await submitted(any_stage)
        await finish(any_stage, claim)
        tries = await receiver.first(3)
        await none_left(any_stage)

    assert len({one.id for one in tries}) == 1
    assert len({one.body for one in tries}) == 1
    assert len(receiver.got) == 3


async def none_left(stage) -> None:
    [notices] = stage.transport.notices
    async with asyncio.timeout(60):
        while await notices.waiting(1):
            await stage.transport.now_ms()
            await asyncio.sleep(0)


@pytest.mark.parametrize(("answers", "tries"), [([500], 3), ([410], 1)], ids=["no luck", "gone"])
async def test_at_last_it_is_given_up_and_an_operator_can_say_again(any_stage, receiver, answers, tries):
    receiver.answers = answers
    [notices] = any_stage.transport.notices
    async with telling(any_stage, receiver):
        _, claim = await submitted(any_stage)
        await finish(any_stage, claim)
        await receiver.first(tries)
        await none_left(any_stage)
        [dead] = await notices.given_up(10)
        receiver.answers = [200]
        assert await notices.retry([dead.id]) == 1
        [*_, last] = await receiver.first(tries + 1)

    assert (dead.tries, dead.error, dead.hook) == (tries, f"it answered {answers[0]}", "chat")
    assert last.id == dead.id
    assert json.loads(dead.body) == last.said


async def test_what_a_webhook_that_is_gone_was_to_hear_is_given_up(any_stage):
    [notices] = any_stage.transport.notices
    now = (await notices.read(wait_s=0.001)).after
    assert await notices.take(News(now, now, ()), [Notice("msg_1", "chat", "task.ended", "{}", 0)])
    jobs = asyncio.create_task(run_webhooks(any_stage.transport, {}))
    await none_left(any_stage)
    jobs.cancel()
    await asyncio.wait({jobs})

    assert [one.error for one in await notices.given_up(10)] == ["there is no webhook of this name any more"]


async def test_two_orchestrators_tell_once(any_stage, receiver):
    async with telling(any_stage, receiver), telling(any_stage, receiver):
        ids = set()
        for _ in range(10):
            request, claim = await submitted(any_stage)
            await finish(any_stage, claim)
            ids.add(request.task_id)
        await receiver.until(lambda got: {one.said["data"]["task_id"] for one in got} == ids)
        await none_left(any_stage)

    assert len(receiver.got) == 10


async def test_a_link_answers_what_is_told_in_whole_and_stands_nowhere_but_in_the_message(any_stage, receiver):
    receiver.answers = [503, 204]
    [notices] = any_stage.transport.notices
    long = PUSH.model_copy(
        update={"detail": "\n".join(["# tidy"] * 2000 + ["rm -rf build"]), "always": ("bash:git *",)}
    )
    async with telling(any_stage, receiver, may_answer=True):
        request, claim = await submitted(any_stage)
        await ask(any_stage, claim, PUSH.ask_id, event=long)
        first, second = await receiver.first(2)
        kept = [*await notices.waiting(10), *await notices.given_up(10)]

    told = first.said["data"]
    mark = Links(link_keys(any_stage.transport)).mark(told["answer_url"].partition(PATH)[2])
    assert mark is not None and (mark.task_id, mark.asked) == (request.task_id, long.digest())
    assert (told["ask"]["detail"], told["ask"]["always"]) == (long.detail, ["bash:git *"])
    assert second.said["data"]["ask"] == told["ask"]
    assert not any("answer_url" in one.body for one in kept)


async def test_what_is_too_long_for_a_message_has_no_link(any_stage, receiver):
    async with telling(any_stage, receiver, may_answer=True):
        _, claim = await submitted(any_stage)
        await ask(any_stage, claim, PUSH.ask_id, event=PUSH.model_copy(update={"detail": "x" * 200_000}))
        [got] = await receiver.first(1)

    assert "answer_url" not in got.said["data"]
    assert "muster ask show" in got.said["data"]["ask"]["question"]


async def test_what_was_answered_meanwhile_is_not_told(any_stage, receiver):
    receiver.answers, receiver.hold = [503], asyncio.Event()
    async with telling(any_stage, receiver):
        request, claim = await submitted(any_stage)
        await ask(any_stage, claim, PUSH.ask_id)
        await receiver.first(1)
        await any_stage.transport.answer(request.task_id, PUSH.ask_id, "once", by="cli:ann@desk")
        await any_stage.transport.claim(request.recipient, "w", slots=1, wait_s=5)
        receiver.hold.set()
        await none_left(any_stage)

    [notices] = any_stage.transport.notices
    assert (len(receiver.got), await notices.given_up(10)) == (1, [])
