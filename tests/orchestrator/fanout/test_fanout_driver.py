"""Fan-outs from the request to the report; only the workers' part is scripted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from envelope.agents import AgentCard
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskRequest, TaskResult
from orchestrator.errors import BadInput
from orchestrator.fanout.items import items_of_lines
from orchestrator.fanout.report import ANSWERS_NAME
from orchestrator.fanout.spec import fanout_request
from orchestrator.gathering import Policy, Want
from transport.consumer import Delivery

EXPLORE = AgentCard(name="explore", mode="subagent", pool="explore", auth_scope=("read:**",))
WORDS = ["one", "two", "three", "four", "five", "six"]


@dataclass
class Explorers:
    """Answer with their prompt in capitals, unless `fails` says otherwise; `release` lets those that `wait` end."""

    fails: Callable[[str], bool] = lambda prompt: False
    waits: Callable[[str], bool] = lambda prompt: False
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: list[TaskRequest] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def handle(self, delivery: Delivery) -> TaskResult:
        task = delivery.request
        self.started.append(task)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.waits(task.input.prompt):
                await self.release.wait()
        finally:
            self.running -= 1
        said = {"trace_id": task.trace_id, "task_id": task.task_id, "attempt": delivery.claim.lease.attempt}
        if self.fails(task.input.prompt):
            error = ErrorInfo.of(ErrorCode.NO_ANSWER, "it does not know")
            return TaskResult(**said, status=State.ERROR, errors=(error,))
        return TaskResult(**said, status=State.COMPLETED, output=Output(text=task.input.prompt.upper()))


async def ask(stage, prompt: str = "look at {item}", words=WORDS, **options) -> TaskRequest:
    items = items_of_lines(words, name="words")
    return await fanout_request(
        prompt, items, agent=EXPLORE, blobs=stage.transport.blobs, settings=stage.muster.settings, **options
    )


async def run(stage, explorers: Explorers, request: TaskRequest) -> TaskResult:
    async with stage.orchestrator(), stage.serving("explore", explorers.handle):
        handle = await stage.muster.submit_repeatable(request)
        [result] = await stage.muster.gather([handle])
    return result


async def answers(stage, result: TaskResult) -> list[dict]:
    return [json.loads(line) for line in (await stage.muster.attachment(result, ANSWERS_NAME)).splitlines()]


async def test_every_item_is_answered_in_the_order_of_the_items(any_stage):
    result = await run(any_stage, Explorers(), await ask(any_stage))

    assert (result.status, result.errors) == (State.COMPLETED, ())
    told = await answers(any_stage, result)
    assert [one["item"]["item"] for one in told] == WORDS
    assert [one["text"] for one in told] == [f"LOOK AT {word.upper()}" for word in WORDS]
    assert result.output.text.startswith("## one\n\nLOOK AT ONE\n\n## two")
    assert result.output.structured == {
        "items": 6, "completed": 6, "failed": 0, "not_waited_for": 0, "chosen": None,
    }  # fmt: skip


async def test_a_task_gets_its_agents_grants_an_equal_part_of_the_money_and_a_trace_of_its_own(stage):
    explorers = Explorers()
    result = await run(stage, explorers, await ask(stage))

    assert {task.auth_scope for task in explorers.started} == {("read:**",)}
    assert {task.budget.max_cost_microusd for task in explorers.started} == {
        stage.muster.settings.budget_microusd // len(WORDS)
    }
    assert len({task.trace_id for task in explorers.started} | {result.trace_id}) == len(WORDS) + 1
    assert {task.batch_id for task in explorers.started} == {result.task_id}


async def test_the_limits_of_a_fan_out_hold_for_each_of_its_tasks(memory_stage):
    whole = Budget(max_cost_microusd=600, max_tokens=1_000, max_turns=9, max_tool_calls=3)
    explorers = Explorers()
    await run(memory_stage, explorers, await ask(memory_stage, budget=whole))

    assert {task.budget for task in explorers.started} == {whole.model_copy(update={"max_cost_microusd": 100})}


async def test_more_may_be_granted_than_the_agent_has_and_is_other_work(stage):
    explorers, more = Explorers(), ("read:**", "webfetch:https://docs.example.org/*")
    usual, wider = await ask(stage), await ask(stage, auth_scope=more)
    await run(stage, explorers, wider)

    assert {task.auth_scope for task in explorers.started} == {more}
    assert wider.auth_scope == more and wider.idempotency_key != usual.idempotency_key


async def test_what_failed_is_named_and_alone_done_again(stage):
    explorers = Explorers(fails=lambda prompt: "three" in prompt)
    request = await ask(stage)
    failed = await run(stage, explorers, request)

    assert (failed.status, failed.errors[0].code) == (State.ERROR, ErrorCode.PARTIAL)
    assert "1 of 6 tasks failed; the first: it does not know" in failed.errors[0].message
    assert "(error: it does not know)" in failed.output.text

    again = await run(stage, Explorers(), await ask(stage))

    assert again.status is State.COMPLETED
    assert again.task_id != failed.task_id
    assert len(await answers(stage, again)) == len(WORDS)
    assert len(explorers.started) == len(WORDS)


async def test_the_same_fan_out_twice_is_one(stage):
    explorers = Explorers()
    first = await run(stage, explorers, await ask(stage))
    second = await run(stage, explorers, await ask(stage))

    assert second == first
    assert len(explorers.started) == len(WORDS)


async def test_no_more_run_at_once_than_is_allowed(any_stage):
    explorers = Explorers(waits=lambda _: True)
    async with any_stage.orchestrator(), any_stage.serving("explore", explorers.handle):
        handle = await any_stage.muster.submit(await ask(any_stage, max_running=2))
        gathering = asyncio.create_task(any_stage.muster.gather([handle]))
        while len(explorers.started) < 2:
            await asyncio.wait({gathering}, timeout=0.01)
        explorers.release.set()
        [result] = await gathering

    assert result.status is State.COMPLETED
    assert explorers.most_running == 2
    assert Counter(task.input.prompt for task in explorers.started) == {f"look at {word}": 1 for word in WORDS}


async def test_first_ends_with_one_answer_and_the_rest_are_stopped(any_stage):
    explorers = Explorers(waits=lambda prompt: "two" not in prompt)
    result = await run(any_stage, explorers, await ask(any_stage, want=Want(Policy.FIRST)))

    assert result.status is State.COMPLETED
    told = await answers(any_stage, result)
    assert [one["text"] for one in told if one["state"]] == ["LOOK AT TWO"]
    assert result.output.text.startswith("## two\n\nLOOK AT TWO")
    assert result.output.structured["not_waited_for"] == len(WORDS) - 1
    states = {(await any_stage.muster.record(task.task_id)).state for task in explorers.started}
    assert states == {State.COMPLETED, State.CANCELLED}


async def test_a_quorum_asks_the_same_thing_several_times(stage):
    explorers = Explorers()
    request = await ask(stage, "vote {item}", ["yes", "yes", "no"], want=Want(Policy.QUORUM, 2))
    result = await run(stage, explorers, request)

    assert result.status is State.COMPLETED
    assert result.output.text.startswith("## yes\n\nVOTE YES")


async def test_no_quorum_is_an_error_that_says_so(stage):
    result = await run(stage, Explorers(), await ask(stage, want=Want(Policy.QUORUM, 2)))

    assert result.errors[0].message == "of 6 tasks no 2 gave the same answer"
    assert len(await answers(stage, result)) == len(WORDS)


async def test_an_orchestrator_that_goes_away_repeats_nothing(stage):
    explorers = Explorers(waits=lambda _: True)
    async with stage.serving("explore", explorers.handle):
        async with stage.orchestrator():
            handle = await stage.muster.submit(await ask(stage, max_running=3))
            gathering = asyncio.create_task(stage.muster.gather([handle]))
            while len(explorers.started) < 3:
                await asyncio.wait({gathering}, timeout=0.01)
        explorers.release.set()
        async with stage.orchestrator():
            [result] = await gathering

    assert result.status is State.COMPLETED
    assert Counter(task.input.prompt for task in explorers.started) == {f"look at {word}": 1 for word in WORDS}


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("no place", {}),
        ("{item}", {"want": Want(Policy.QUORUM, 7)}),
        ("{item}", {"max_running": 0}),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_is_submitted(memory_stage, prompt, options):
    with pytest.raises(BadInput):
        await ask(memory_stage, prompt, **options)


def forged(items: list[object], count: int) -> tuple[bytes, int]:
    return json.dumps(items, separators=(",", ":")).encode(), count


FORGED = {
    "more items than a fan-out may have": forged([{"item": "", "number": "1"}] * 200_000, 200_000),
    "more items than its request says": forged([{"item": "", "number": str(n)} for n in range(1, 200_001)], 1),
    "fewer items": forged([{"item": "a", "number": "1"}], 2),
    "items of one number": forged([{"item": "a", "number": "1"}] * 2, 2),
    "items without a number": forged([{"item": "a"}], 1),
    "items that are no texts": forged([{"item": ["a"], "number": "1"}], 1),
    "no list": (b'{"item": "a"}', 1),
    "deep": (b"[" * 100_000, 1),
    "no JSON": (b"\xff\xfe", 1),
    "more bytes than are read": (b" " * (16 * 1024 * 1024 + 1), 1),
    "one long item": forged([{"item": "a" * 600_000, "number": "1"}], 1),
    "long prompts": forged([{"item": "a" * 5_000, "number": str(n)} for n in range(1, 2_001)], 2_000),
}


@pytest.mark.parametrize(("content", "count"), FORGED.values(), ids=FORGED.keys())
async def test_items_that_somebody_else_has_made_start_nothing(memory_stage, content, count):
    """A request may come by other ways than `fanout_request`, which counts them."""
    explorers, request = Explorers(), await ask(memory_stage, "{item}" * 30, words=["one"])
    params = {**request.input.params, "items": await memory_stage.transport.blobs.put(content), "count": count}
    given = request.input.model_copy(update={"params": params})

    result = await run(memory_stage, explorers, request.model_copy(update={"input": given}))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT] and result.errors[0].hint
    assert explorers.started == []
