"""The money of a batch: equal parts to begin with, and what some leave over for those that need more."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.batch.fund import Fund
from orchestrator.batch.report import BatchReport
from orchestrator.driver import Driver

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


async def test_a_batchs_other_limits_hold_for_each_of_its_shards(stage, text):
    hard(stage, needs=PART // 2, others=PART // 2)
    request = stage.batch_request(await stage.repository(FILES), text=text)
    limits = {"max_tokens": 1_000, "max_turns": 9, "max_tool_calls": 3}

    await stage.run(request.model_copy(update={"budget": request.budget.model_copy(update=limits)}))

    told = {shard.budget.model_copy(update={"max_cost_microusd": None}) for shard in stage.builders.shards_started()}
    assert told == {Budget(**limits, waits_at_cap=request.budget.waits_at_cap)}


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


@pytest.fixture
def heard(monkeypatch):
    return Heard(monkeypatch)


class Heard:
    """What orchestrators do, to be waited for: seats closed, caps raised, tasks placed. The end of `slow` is held."""

    def __init__(self, monkeypatch):
        self.closed, self.caps, self.placed = 0, {}, []
        self.changed = asyncio.Event()
        self.slow, self.may_end = "", asyncio.Event()
        close, place, end = Fund.close, Driver._place, Driver._report_ended

        async def closed(fund, seat, **more):
            await close(fund, seat, **more)
            self.closed += 1
            self.tell()

        async def placed(driver, work, handle):
            found = await place(driver, work, handle)
            self.placed.append(handle.task_id)
            self.tell()
            return found

        async def ended(driver, result, place):
            if result.task_id == self.slow:
                await self.may_end.wait()
            return await end(driver, result, place)

        monkeypatch.setattr(Fund, "close", closed)
        monkeypatch.setattr(Driver, "_place", placed)
        monkeypatch.setattr(Driver, "_report_ended", ended)

    def tell(self):
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, holds):
        while not holds():
            await self.changed.wait()


async def test_a_restarted_driver_counts_what_it_has_not_come_to_again(stage, text, heard, monkeypatch):
    """a has spent its part and tries again, with what b left; when c is done, too, that try and d may spend more."""
    first_a, again_a, d = [], [], []
    released = asyncio.Event()
    raise_cap = type(stage.transport).raise_cap

    async def raised(self, trace_id, cap_microusd, *, by):
        ledger = await raise_cap(self, trace_id, cap_microusd, by=by)
        heard.caps[trace_id] = ledger.cap_microusd
        heard.tell()
        return ledger

    async def hold(task):
        path = task.input.prompt[-4:]
        if path == "a.py":
            (again_a if task.retry_of else first_a).append(task)
            heard.tell()
        if path == "d.py":
            d.append(task)
        if path == "a.py" and not task.retry_of:
            await heard.until(lambda: heard.closed == 1)
        elif path == "c.py":
            await heard.until(lambda: again_a and again_a[0].task_id in heard.placed)
        elif path in ("a.py", "d.py"):
            await released.wait()

    def edit(task, files):
        path = task.input.prompt.split()[1]
        if path == "src/a.py" and not task.retry_of:
            raise stage.builders.fails("its budget is spent")
        files[path] = files[path].replace("old", "new")

    def cost(task):
        is_dear = task.input.prompt[-4:] in ("a.py", "d.py")
        return heard.caps.get(task.trace_id, task.budget.max_cost_microusd) if is_dear else 0

    monkeypatch.setattr(type(stage.transport), "raise_cap", raised)
    stage.builders.edit, stage.builders.cost, stage.builders.before_start = edit, cost, hold
    stage.builders.code = lambda _: ErrorCode.BUDGET
    one = await stage.repository({"src/a.py": "old a\n", "t": "assert\n"}, name="one")
    rest = await stage.repository({path: FILES[path] for path in FILES if path != "src/a.py"}, name="rest")

    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(one, rest, text=text)])
            await heard.until(lambda: len(heard.caps) == 2)
        heard.closed, heard.slow = 0, first_a[0].task_id
        heard.placed.clear()
        async with stage.orchestrator():
            await heard.until(lambda: heard.closed == 2)
            heard.may_end.set()
            await heard.until(lambda: again_a[0].task_id in heard.placed)
            released.set()
            [result] = await stage.muster.gather([handle])

    report = BatchReport.model_validate(result.output.structured)
    assert (result.attempt, [shard.outcome for shard in report.shards]) == (2, ["applied"] * 4)
    assert heard.caps == {d[0].trace_id: PART + PART // 2, again_a[0].trace_id: PART + PART // 2}
    assert report.cost_microusd == PART + 2 * (PART + PART // 2) <= 1_000_000


async def test_what_a_concluded_repository_has_spent_stays_spent_after_a_restart(stage, text, heard, monkeypatch):
    """b tries again with what c and d have left: what a has spent is gone, though nobody looks at it again."""
    concluded, restarted = asyncio.Event(), asyncio.Event()
    save = Driver.save
    tries = []

    async def saved(driver, blob):
        await save(driver, blob)
        concluded.set()

    async def hold(task):
        path = task.input.prompt[-4:]
        if path == "b.py":
            tries.append(task)
            await restarted.wait()
            await heard.until(lambda: heard.closed >= 2)

    def edit(task, files):
        path = task.input.prompt.split()[1]
        if path == "src/b.py" and not task.retry_of:
            raise stage.builders.fails("its budget is spent")
        files[path] = files[path].replace("old", "new")

    async def charging(delivery):
        lease = delivery.claim.lease
        progress = TaskProgress(
            trace_id=lease.trace_id, task_id=lease.task_id, attempt=1, seq=0, at_ms=0, status=State.RUNNING
        )
        await stage.transport.emit(lease, progress, charge_microusd=stage.builders.cost(delivery.request))
        return await handle_of_builders(delivery)

    handle_of_builders = stage.builders.handle
    monkeypatch.setattr(stage.builders, "handle", charging)
    monkeypatch.setattr(Driver, "save", saved)
    stage.builders.edit, stage.builders.before_start = edit, hold
    stage.builders.cost = lambda task: PART if task.input.prompt[-4:] in ("a.py", "b.py") else 0
    stage.builders.code = lambda _: ErrorCode.BUDGET
    one = await stage.repository({"src/a.py": "old a\n", "t": "assert\n"}, name="one")
    rest = await stage.repository({path: FILES[path] for path in FILES if path != "src/a.py"}, name="rest")

    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(one, rest, text=text)])
            await concluded.wait()
        heard.closed = 0
        restarted.set()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    report = BatchReport.model_validate(result.output.structured)
    assert (result.attempt, [shard.outcome for shard in report.shards]) == (2, ["applied"] * 4)
    assert [task.budget.max_cost_microusd for task in tries] == [PART, 2 * PART]
    assert report.cost_microusd == 3 * PART
