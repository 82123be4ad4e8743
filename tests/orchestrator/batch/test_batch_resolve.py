"""Conflicts that an agent resolves, and what its answer must hold to be one."""

from __future__ import annotations

import asyncio
import re

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.batch.report import BatchReport
from orchestrator.driver import Driver

FILES = {"src/m0.py": "old\n", "src/m1.py": "old\n", "src/m2.py": "old\n", "NEWS": "none\n", "tests/t.py": "assert\n"}
CONFLICT = re.compile(r"<<<<<<< \S+\n(.*)\|\|\|\|\|\|\| .*?=======\n(.*)>>>>>>> \S+\n", re.DOTALL)


@pytest.fixture
def asking(batch_text):
    """Two of three shards change NEWS, and an agent is asked."""
    return batch_text.replace("[shards]", '[shards]\nalso_edit = ["NEWS"]') + '[merge]\nresolve = "agent"\n'


def play(builders, resolve):
    """The usual recipe; `resolve` is the agent, which gets the files."""

    def edit(task, files):
        if task.input.prompt:
            resolve(files)
            return
        builders.modernise(task, files)
        path = task.input.params["commands"][0].removeprefix("fix ")
        files["NEWS"] = f"{path}\n" if path != "src/m2.py" else files["NEWS"]

    builders.edit = edit


def asked(builders):
    return [task for task in builders.started if task.input.prompt]


def both(files):
    files["NEWS"] = CONFLICT.sub(r"\1\2", files["NEWS"])


async def test_an_agent_resolves_what_lines_cannot_and_the_gate_proves_it(stage, asking):
    play(stage.builders, both)

    result, report = await stage.batch(await stage.repository(FILES), text=asking)

    [repository] = report.repositories
    assert repository.verified and repository.collisions == () and result.errors == ()
    assert [(shard.outcome, shard.merged_by) for shard in repository.shards] == [
        ("applied", "as it is"),
        ("applied", "resolved"),
        ("applied", "as it is"),
    ]
    assert b"+src/m0.py\n+src/m1.py\n" in await stage.muster.diff(result.task_id)
    [task] = asked(stage.builders)
    assert repository.shards[1].resolved_by == task.task_id
    assert {grant for grant in task.auth_scope if grant.startswith("edit:")} == {"edit:NEWS"}
    assert "modernise: src/m0.py" in task.input.prompt and "`run-tests`" in task.input.prompt


async def test_the_same_conflict_is_resolved_once(stage, asking):
    play(stage.builders, both)
    given = await stage.repository(FILES)
    _, first = await stage.batch(given, text=asking)

    _, again = await stage.batch(given, text=asking + 'gate = "each"\n')

    assert again.repositories[0].commit == first.repositories[0].commit
    assert len(asked(stage.builders)) == 1


async def test_a_patch_that_lands_as_it_is_after_all_was_resolved_by_nobody(stage, asking):
    """Once resolved onto another one, which is then set aside for the gate's sake."""
    play(stage.builders, both)
    text = asking + 'first = ["src/m0.py"]\n'
    files = FILES | {"src/m0.py": "old\nfail\n", "tests/t.py": "assert\n"}
    stage.builders.tests = lambda files: {
        "passed": 1,
        "failed": int(files["src/m0.py"].startswith("new")),
        "errors": 0,
        "skipped": 0,
    }

    _, report = await stage.batch(await stage.repository(files), text=text)

    blamed, resolved, _ = report.repositories[0].shards
    assert (blamed.outcome, len(asked(stage.builders))) == ("set_aside", 1)
    assert (resolved.merged_by, resolved.resolved_by) == ("as it is", "")


# What an agent does to the file in conflict, and why that is no resolution. "elsewhere": another file, too.
LIES = {
    "NEWS1": (lambda text: text, "it changed nothing"),
    "NEWS2": (lambda text: f"{text}more\n", "NEWS2 still has conflict markers"),
    "NEWS3": (lambda text: CONFLICT.sub(r"\1", text), "it keeps one side alone in NEWS3"),
    "NEWS4": (lambda text: CONFLICT.sub(r"\2", text), "it keeps one side alone in NEWS4"),
    "NEWS5": (lambda text: CONFLICT.sub(r"\1\2", text), "it changes src/m0.py, which is not in conflict"),
}


async def test_what_is_no_resolution_stays_a_collision_that_says_why(stage, batch_text):
    """The first shard changes all the files, each of the others one of them, and each time the agent lies otherwise."""

    def edit(task, files):
        if task.input.prompt:
            [path] = [path for path, text in files.items() if CONFLICT.search(text)]
            files[path] = LIES[path][0](files[path])
            if path == "NEWS5":
                files["src/m0.py"] = "mine\n"
            return
        stage.builders.modernise(task, files)
        number = task.input.params["commands"][0][-4]
        for path in LIES:
            if number in ("0", path[-1]):
                files[path] = f"{number}\n"

    stage.builders.honest, stage.builders.edit = False, edit
    files = {f"src/m{n}.py": "old\n" for n in range(6)} | dict.fromkeys(LIES, "none\n") | {"tests/t.py": "assert\n"}
    rules = '[merge]\nresolve = "agent"\nfirst = ["src/m0.py"]\n'
    text = batch_text.replace("[shards]", '[shards]\nalso_edit = ["NEWS*"]') + rules

    _, report = await stage.batch(await stage.repository(files), text=text)

    [repository] = report.repositories
    assert [shard.outcome for shard in repository.shards] == ["applied", *["collision"] * 5]
    for collision, (path, (_, why)) in zip(repository.collisions, LIES.items(), strict=True):
        assert (collision.with_keys, collision.paths) == (("src/m0.py",), (path,))
        assert f"an agent tried: {why}" in collision.detail and "CONFLICT (content)" in collision.detail
    assert all(shard.patch for shard in repository.shards[1:])
    assert repository.verified  # what landed did pass


async def test_an_agent_that_fails_leaves_the_conflict_to_a_person(stage, asking):
    def fail(files):
        raise stage.builders.fails("no idea")

    play(stage.builders, fail)

    _, report = await stage.batch(await stage.repository(FILES), text=asking)

    [collision] = report.repositories[0].collisions
    assert "an agent tried: no idea" in collision.detail


async def test_a_resolution_that_breaks_the_gate_is_set_aside_like_any_patch(stage, asking):
    def badly(files):
        both(files)
        files["NEWS"] += "fail\n"

    play(stage.builders, badly)

    _, report = await stage.batch(await stage.repository(FILES), text=asking)

    [repository] = report.repositories
    assert repository.verified
    assert [shard.outcome for shard in repository.shards] == ["applied", "set_aside", "applied"]


async def test_nobody_is_asked_when_the_budget_is_spent(stage, asking):
    play(stage.builders, both)

    _, report = await stage.batch(await stage.repository(FILES), text=asking + "[limits]\nbudget_usd = 0.0\n")

    assert "no agent was asked: the batch's budget is spent" in report.repositories[0].collisions[0].detail
    assert asked(stage.builders) == []


def in_turn(builders, cost):
    """All three shards change NEWS, each answer costs so much, and keeps both sides."""

    def edit(task, files):
        if task.input.prompt:
            both(files)
            return
        builders.modernise(task, files)
        files["NEWS"] = f"{task.input.params['commands'][0]}\n"

    builders.edit = edit
    builders.cost = lambda task: cost if task.input.prompt else 0


async def test_each_answer_may_spend_what_is_left_and_has_a_ledger_of_its_own(stage, asking):
    in_turn(stage.builders, 400_000)

    result, report = await stage.batch(await stage.repository(FILES), text=asking + "[limits]\nbudget_usd = 1.0\n")

    tasks = asked(stage.builders)
    assert [task.budget.max_cost_microusd for task in tasks] == [1_000_000, 600_000]
    assert [(task.parent_task_id, task.batch_id) for task in tasks] == [(None, result.task_id)] * 2
    ledgers = [await stage.transport.ledger(task.trace_id) for task in tasks]
    assert [ledger.cap_microusd for ledger in ledgers] == [1_000_000, 600_000]
    assert report.repositories[0].cost_microusd == 800_000


async def test_who_is_asked_is_cancelled_with_the_batch(stage, asking):
    play(stage.builders, both)
    running = asyncio.Event()

    async def hang(task):
        if task.input.prompt:
            running.set()
            await asyncio.Event().wait()

    stage.builders.before_start = hang
    async with stage.orchestrator(), stage.workers():
        [handle] = await stage.muster.submit_many([stage.batch_request(await stage.repository(FILES), text=asking)])
        await running.wait()
        await stage.muster.cancel(handle.task_id, "changed my mind")
        [result] = await stage.muster.gather([handle])
        [task] = asked(stage.builders)
        [ended] = [ended async for ended in stage.muster.results([task.task_id])]

    assert (result.status, ended.status) == (State.CANCELLED, State.CANCELLED)


async def test_what_is_left_over_stays_for_other_repositories_until_somebody_is_asked(stage, asking):
    """One repository has nothing to resolve, and is with its gate; in the other two shards run out of money."""
    part, half = 300_000, 150_000
    text = asking.replace('recipe = ["fix {path}"]', 'agent = "build"\nprompt = "Renew {path}"')
    easy = await stage.repository({"src/easy.py": "old\n", "t": "assert\n"})
    hard = await stage.repository(
        {"src/done.py": "old\n", "src/short1.py": "old\n", "src/short2.py": "old\n", "t": "assert\n"}, name="hard"
    )
    merging, hard_goes_on = asyncio.Event(), asyncio.Event()

    def is_first_try(task):
        return "short" in task.input.prompt and not task.retry_of

    def edit(task, files):
        if is_first_try(task):
            raise stage.builders.fails("its budget is spent")
        files[task.input.prompt.split()[1]] = "new\n"

    async def hold(task):
        gate_on_change = task.agent == "verify" and task.workspace.changes
        if task.workspace.base == hard.base:
            if task.retry_of or gate_on_change:  # which comes at once where there is no second try
                hard_goes_on.set()
            elif task.input.prompt:
                await merging.wait()
        elif gate_on_change:
            merging.set()
            await hard_goes_on.wait()

    stage.builders.edit, stage.builders.before_start = edit, hold
    stage.builders.code = lambda _: ErrorCode.BUDGET
    stage.builders.cost = lambda task: half if is_first_try(task) else part if "done" in task.input.prompt else 0

    _, report = await stage.batch(easy, hard, text=text + "[limits]\nbudget_usd = 1.2\n")

    assert [shard.outcome for shard in report.shards] == ["applied"] * 4
    again = [task for task in asked(stage.builders) if task.retry_of]
    assert [task.budget.max_cost_microusd for task in again] == [part, part]


async def test_a_restarted_driver_goes_on_with_the_answer_that_was_asked_for(stage, asking, monkeypatch):
    """All the money that is left is that answer's already, while it is at work."""
    play(stage.builders, both)
    running, met_again = asyncio.Event(), asyncio.Event()
    place = Driver._place

    async def hold(task):
        if task.input.prompt:
            running.set()
            await met_again.wait()
        elif task.agent == "verify" and task.workspace.changes:  # who does not go on with it comes here
            met_again.set()

    async def placed(driver, work, handle):
        found = await place(driver, work, handle)
        if driver.delivery.claim.lease.attempt > 1 and work.request.input.prompt:
            met_again.set()
        return found

    monkeypatch.setattr(Driver, "_place", placed)
    stage.builders.before_start = hold
    text = asking + "[limits]\nbudget_usd = 1.0\n"
    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(await stage.repository(FILES), text=text)])
            await running.wait()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    [task] = asked(stage.builders)
    assert (result.attempt, result.status, task.budget.max_cost_microusd) == (2, State.COMPLETED, 1_000_000)
    shards = BatchReport.model_validate(result.output.structured).shards
    assert [shard.resolved_by for shard in shards] == ["", task.task_id, ""]


async def test_no_agent_is_asked_about_more_than_the_shard_may_edit(stage, batch_text):
    """The conflict is in NEWS. Beside it git would let an edit of a shared file follow it to another shard's folder."""
    lines = "".join(f"{n}\n" for n in range(40))
    files = {"packages/a/a": "1\n", "packages/b/b": "1\n", "NEWS": "none\n", "shared/x": lines}

    def edit(task, files):
        folder = task.input.params["commands"][0].removeprefix("fix ")
        files["NEWS"] = f"{folder}\n"
        if folder == "packages/a":
            files["packages/a/x"] = files.pop("shared/x")
        else:
            files["shared/x"] += "end\n"

    stage.builders.edit = edit
    shards = 'directories = "packages/*"\nalso_edit = ["NEWS", "shared/**"]'
    text = batch_text.replace('glob = "src/*.py"', shards).replace('[gate]\ncommands = ["run-tests"]\n', "")

    _, report = await stage.batch(await stage.repository(files), text=text + '[merge]\nresolve = "agent"\n')

    [collision] = report.repositories[0].collisions
    assert collision.key == "packages/b/" and asked(stage.builders) == []
    assert "CONFLICT (content): Merge conflict in NEWS" in collision.detail
    assert "no agent was asked: CONFLICT (scope): shared/x has become packages/a/x, which" in collision.detail
