"""A batch of two agents' steps, raised while one shard is still in the first."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Metrics
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.submit import VERIFY

pytestmark = pytest.mark.redis
FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "src/c.py": "old c\n", "src/d.py": "old d\n", "t": "assert\n"}
STEP = '[[steps]]\nagent = "build"\nprompt = "{word} {path}"\n'


async def test_a_raised_batch_gives_away_nothing_that_is_kept_for_later_steps(redis_stage, batch_text):
    stage = redis_stage
    steps = STEP.replace("{word}", "Renew") + STEP.replace("{word}", "Check")
    text = batch_text.replace('[[steps]]\nrecipe = ["fix {path}"]\n', steps) + "[limits]\nbudget_usd = 1.0\n"
    started, gate = asyncio.Event(), asyncio.Event()
    spent: dict[str, int] = {}
    ended: list[str] = []
    first: list[str] = []

    def edit(task, files):
        path = task.input.prompt.split()[1]
        files[path] = files[path] + "more\n"

    stage.builders.edit = edit

    async def handle(delivery):
        task, lease = delivery.request, delivery.claim.lease
        if task.agent == VERIFY:
            return await stage.builders.handle(delivery)
        prompt = task.input.prompt
        spends = prompt == "Renew src/a.py" or prompt.startswith("Check")  # the first step of the others is cheap
        if prompt == "Renew src/a.py":
            first.append(task.trace_id)
            started.set()
            await gate.wait()
        own = seq = 0
        while spends and await stage.transport.reserve(lease, 10_000) is not None:
            told = TaskProgress(
                trace_id=task.trace_id,
                task_id=task.task_id,
                attempt=lease.attempt,
                seq=seq,
                at_ms=await stage.transport.now_ms(),
                status=State.RUNNING,
            )
            await stage.transport.emit(lease, told, charge_microusd=10_000, release_microusd=10_000)
            own, seq = own + 10_000, seq + 1
        spent[prompt] = own
        result = await stage.builders.handle(delivery)
        ended.append(prompt)
        return result.model_copy(update={"metrics": Metrics(cost_microusd=own)})

    request = stage.batch_request(await stage.repository(FILES), text=text)
    async with stage.orchestrator(), stage.serving("build", handle):
        batch = await stage.muster.submit(request)
        await started.wait()
        while len(ended) < 3:
            await asyncio.sleep(0.05)
        await stage.muster.raise_budget(batch.trace_id, 1_010_000, by="anna")
        while (await stage.transport.ledger(first[0])).cap_microusd == 250_000:
            await asyncio.sleep(0.05)
        gate.set()
        await stage.muster.gather([batch])

    assert spent["Renew src/a.py"] == 260_000
    whole = (await stage.muster.budget(batch.trace_id)).ledger
    assert whole.spent_microusd <= whole.cap_microusd == 1_010_000
