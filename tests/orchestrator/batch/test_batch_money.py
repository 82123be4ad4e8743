"""The money of a batch: equal parts to begin with, and what some leave over for those that need more."""

from __future__ import annotations

import asyncio

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "src/c.py": "old c\n", "src/d.py": "old d\n", "t": "assert\n"}
PART = 250_000  # of a dollar, for each of four


@pytest.fixture
def text(batch_text):
    agent = 'agent = "build"\nprompt = "Renew {path}"'
    return batch_text.replace('recipe = ["fix {path}"]', agent) + "[limits]\nbudget_usd = 1.0\n"


def hard(stage, *, needs: int, others: int):
    """src/a.py needs so much, and fails with less; the others spend what they are said to."""

    def edit(task, files):
        path = task.input.prompt.split()[1]
        if path == "src/a.py" and task.budget.max_cost_microusd < needs:
            raise stage.builders.fails("its budget is spent")
        files[path] = files[path].replace("old", "new")

    def cost(task):
        if task.agent != "build":
            return 0
        return min(needs, task.budget.max_cost_microusd) if "src/a.py" in task.input.prompt else others

    stage.builders.edit, stage.builders.cost = edit, cost
    stage.builders.code = lambda _: ErrorCode.BUDGET


async def test_who_ran_out_of_money_tries_again_with_what_others_left(stage, text):
    hard(stage, needs=PART * 2, others=PART // 5)

    result, report = await stage.batch(await stage.repository(FILES), text=text)

    assert (result.status, report.repositories[0].count("applied")) == (State.COMPLETED, 4)
    tries = [task.budget.max_cost_microusd for task in stage.builders.shards_started() if "a.py" in task.input.prompt]
    assert tries == [PART, 3 * (PART - PART // 5)]
    assert report.cost_microusd == PART + 2 * PART + 3 * (PART // 5) <= 1_000_000


async def test_who_cannot_be_given_as_much_again_is_not_done(stage, text):
    hard(stage, needs=PART * 2, others=PART - 1)

    result, report = await stage.batch(await stage.repository(FILES), text=text)

    assert [error.code for error in result.errors] == [ErrorCode.PARTIAL]
    assert [shard.key for shard in report.repositories[0].shards if shard.code == "budget"] == ["src/a.py"]
    assert len(stage.builders.shards_started()) == 4


async def test_when_half_are_done_the_others_may_spend_what_they_left(stage, text, monkeypatch):
    hard(stage, needs=0, others=PART // 5)
    raised = asyncio.Event()
    caps: dict[str, int] = {}
    raise_cap = type(stage.transport).raise_cap

    async def seen(self, trace_id, cap_microusd, *, by):
        ledger = await raise_cap(self, trace_id, cap_microusd, by=by)
        caps.setdefault(trace_id, ledger.cap_microusd)
        if len(caps) == 2:
            raised.set()
        return ledger

    async def hold(task):
        if task.agent == "build" and ("a.py" in task.input.prompt or "b.py" in task.input.prompt):
            await raised.wait()

    monkeypatch.setattr(type(stage.transport), "raise_cap", seen)
    stage.builders.before_start = hold

    result, _ = await stage.batch(await stage.repository(FILES), text=text)

    assert result.status is State.COMPLETED
    held = {task.trace_id for task in stage.builders.shards_started() if task.input.prompt[-4:] in ("a.py", "b.py")}
    assert caps == dict.fromkeys(held, PART + PART - PART // 5)
