"""Batches from the request to the report, on both transports; only the workers' part is scripted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envelope.errors import CODES, ErrorCode, ExitCode
from envelope.events import ChildEnded, ChildSpawned, GateVerdict, MergeStep, WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskRequest
from orchestrator.batch.report import BatchReport
from orchestrator.session.fold import Session, apply
from orchestrator.submit import VERIFY
from repo.mirror import mirror_of
from transport import admission
from transport.base import Allotment
from transport.outbox import Outbox

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "src/c.py": "fine c\n", "tests/t.py": "assert\nassert\n"}


async def test_disjoint_shards_are_merged_and_verified(any_stage):
    given = await any_stage.repository(FILES)

    result, report = await any_stage.batch(given)

    assert (result.status, result.errors) == (State.COMPLETED, ())
    [repository] = report.repositories
    assert repository.verified and report.verified
    assert [(shard.key, shard.outcome) for shard in repository.shards] == [
        ("src/a.py", "applied"),
        ("src/b.py", "applied"),
        ("src/c.py", "empty"),
    ]
    assert (repository.before.tests, repository.after.tests) == (2, 2)
    assert [file.path for file in result.patch.files] == ["src/a.py", "src/b.py"]
    assert b"+new a" in await any_stage.muster.diff(result.task_id)
    assert "demo: verified" in result.output.text


async def test_the_merged_commit_travels_in_a_bundle(stage, tmp_path):
    given = await stage.repository(FILES)

    result, report = await stage.batch(given)

    file = tmp_path / "merged.bundle"
    file.write_bytes(await stage.muster.attachment(result, report.repositories[0].bundle))
    mirror = await mirror_of(tmp_path / "elsewhere", bundle=file, commit=report.repositories[0].commit)
    assert await mirror.has(given.base)


async def test_a_shard_is_a_trace_of_its_own_that_may_edit_its_file_alone(stage):
    given = await stage.repository(FILES)

    result, _ = await stage.batch(given)

    shards = stage.builders.shards_started()
    assert len({shard.trace_id for shard in shards} | {result.trace_id}) == 4
    assert {grant for shard in shards for grant in shard.auth_scope if grant.startswith("edit:")} == {
        "edit:src/a.py",
        "edit:src/b.py",
        "edit:src/c.py",
    }
    assert {shard.batch_id for shard in shards} == {result.task_id}


async def test_the_stream_tells_of_shards_merges_and_both_verdicts(stage):
    given = await stage.repository(FILES)
    result, _ = await stage.batch(given)

    events = []
    view = Session.of(result.task_id, result.trace_id)
    async for entry in stage.muster.follow(result.trace_id):
        apply(view, entry)
        events += getattr(entry.message, "events", ())

    spawned = {event.child_task_id for event in events if isinstance(event, ChildSpawned)}
    assert spawned == {event.child_task_id for event in events if isinstance(event, ChildEnded)}
    assert set(view.root_task.children) == spawned
    assert [event.outcome for event in events if isinstance(event, MergeStep)] == ["applied", "applied", "empty"]
    assert [(event.phase, event.passed) for event in events if isinstance(event, GateVerdict)] == [
        ("before", True),
        ("after", True),
    ]
    assert view.root_task.state is State.COMPLETED


async def test_two_runs_of_the_same_batch_are_one(any_stage):
    given = await any_stage.repository(FILES)
    first, _ = await any_stage.batch(given)

    second, _ = await any_stage.batch(given)

    assert second == first
    assert len(any_stage.builders.started) == 3 + 2  # each shard once, the gate before and after


async def test_the_same_work_in_another_batch_is_reused_and_makes_the_same_commit(stage, batch_text):
    given = await stage.repository(FILES)
    _, first = await stage.batch(given)

    _, second = await stage.batch(given, text=batch_text + '[publish]\nbranch = "muster/again"\n')

    assert all(shard.reused for shard in second.repositories[0].shards)
    assert len(stage.builders.shards_started()) == 3
    assert second.repositories[0].commit == first.repositories[0].commit
    assert second.branch == "muster/again"


async def test_overlapping_patches_are_named_with_both_sides_and_the_rest_lands(any_stage, batch_text):
    def quarrel(task, files):
        any_stage.builders.modernise(task, files)
        files["NEWS"] = f"{task.input.params['commands'][0]}\n"

    any_stage.builders.edit = quarrel
    given = await any_stage.repository({**FILES, "NEWS": "nothing\n"})

    result, report = await any_stage.batch(given, text=batch_text.replace("[shards]", '[shards]\nalso_edit = ["NEWS"]'))

    [repository] = report.repositories
    assert {shard.key: shard.outcome for shard in repository.shards} == {
        "src/a.py": "applied",
        "src/b.py": "collision",
        "src/c.py": "collision",
    }
    assert [(c.key, c.with_keys, c.paths) for c in repository.collisions] == [
        ("src/b.py", ("src/a.py",), ("NEWS",)),
        ("src/c.py", ("src/a.py",), ("NEWS",)),
    ]
    assert [error.code for error in result.errors] == [ErrorCode.COLLISION]
    assert "2 of 3 patches collide with earlier ones; src/b.py with src/a.py in NEWS" in result.errors[0].message
    assert repository.verified  # what landed did pass the gate


async def test_a_patch_outside_its_shards_scope_is_set_aside_even_if_a_worker_sends_it(stage):
    given = await stage.repository(FILES)
    stage.builders.honest = False

    def stray(task, files):
        stage.builders.modernise(task, files)
        if "src/a.py" in task.input.params["commands"][0]:
            files["tests/t.py"] = "assert\n" * 9

    stage.builders.edit = stray

    result, report = await stage.batch(given)

    first = report.repositories[0].shards[0]
    assert (first.key, first.outcome) == ("src/a.py", "set_aside")
    assert [file.path for file in result.patch.files] == ["src/b.py"]
    assert "tests/t.py, which is not in the shard's scope" in result.errors[0].message
    assert b"tests/t.py" in await stage.muster.attachment(result, first.patch)  # nothing is dropped


AT_THE_END = '[merge]\ngate = "end"\n'


async def test_a_failing_gate_is_not_acceptable_and_the_patch_is_kept(any_stage, batch_text):
    def break_it(task, files):
        any_stage.builders.modernise(task, files)
        files["src/a.py"] += "fail\n"

    any_stage.builders.edit = break_it

    result, report = await any_stage.batch(await any_stage.repository(FILES), text=batch_text + AT_THE_END)

    assert result.status is State.ERROR
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert CODES[result.errors[0].code].exit_code is ExitCode.NOT_ACCEPTABLE
    assert "the gate fails: `run-tests`: exit code 1" in result.errors[0].message
    assert result.patch is not None and not report.verified


@pytest.mark.parametrize(
    ("tests_of", "reason"),
    [
        (lambda files: None, "no test that could be counted"),
        (lambda files: {"passed": 0, "failed": 0, "errors": 0, "skipped": 9}, "ran 9 tests, all of them skipped"),
        (
            lambda files: {"passed": 2 if "old a" in files["src/a.py"] else 1, "failed": 0, "errors": 0, "skipped": 0},
            "ran 1 tests, fewer than the 2 before",
        ),
    ],
    ids=["uncounted", "all skipped", "fewer"],
)
async def test_a_gate_that_proves_nothing_verifies_nothing(stage, tests_of, reason, batch_text):
    stage.builders.tests = tests_of

    result, report = await stage.batch(await stage.repository(FILES), text=batch_text + AT_THE_END)

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert reason in report.repositories[0].reason


async def test_a_base_that_fails_already_is_said_and_not_blamed(stage):
    given = await stage.repository({**FILES, "tests/t.py": "assert\nfail\n"})

    result, report = await stage.batch(given)

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "fails on the base already and no worse now (1 failed before, 1 after)" in report.repositories[0].reason


async def test_a_shard_that_fails_leaves_the_rest_to_land(stage):
    stage.builders.edit = failing_on("src/b.py", stage.builders)

    result, report = await stage.batch(await stage.repository(FILES))

    assert [error.code for error in result.errors] == [ErrorCode.PARTIAL]
    assert CODES[result.errors[0].code].exit_code is ExitCode.PARTIAL
    assert "1 of 3 shards failed; src/b.py: no way" in result.errors[0].message
    assert report.repositories[0].verified
    assert [file.path for file in result.patch.files] == ["src/a.py"]


async def test_a_batch_that_failed_is_repeated_with_what_succeeded_reused(stage):
    stage.builders.edit = failing_on("src/b.py", stage.builders)
    given = await stage.repository(FILES)
    first, _ = await stage.batch(given)
    stage.builders.edit = stage.builders.modernise

    second, report = await stage.batch(given)

    assert (await stage.muster.request(second.task_id)).retry_of == first.task_id
    assert second.status is State.COMPLETED
    assert [(shard.key, shard.reused) for shard in report.repositories[0].shards] == [
        ("src/a.py", True),
        ("src/b.py", False),
        ("src/c.py", True),
    ]


async def test_when_all_shards_fail_the_batch_fails_as_the_first_one_did(stage):
    stage.builders.edit = failing_on("", stage.builders)

    result, report = await stage.batch(await stage.repository(FILES))

    assert [error.code for error in result.errors] == [ErrorCode.RECIPE_FAILED]
    assert result.patch is None
    assert report.repositories[0].commit == report.repositories[0].base


async def test_a_glob_without_files_is_the_callers_mistake(stage):
    result = await stage.run(stage.batch_request(await stage.repository({"README": "x\n"})))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT]
    assert "'src/*.py' matches nothing of demo" in result.errors[0].message


async def test_an_orchestrator_that_goes_away_in_the_middle_submits_nothing_twice(any_stage):
    """The first orchestrator drains while shards run; the next one goes on, and ends with the same commit."""
    untouched = await any_stage.repository(FILES)
    gate_open = asyncio.Event()
    two_started = asyncio.Event()

    async def hold(task: TaskRequest) -> None:
        if len(any_stage.builders.shards_started()) >= 2:
            two_started.set()
        await gate_open.wait()

    any_stage.builders.before_start = hold
    async with any_stage.workers():
        async with any_stage.orchestrator():
            [handle] = await any_stage.muster.submit_many([any_stage.batch_request(untouched)])
            await two_started.wait()
        gate_open.set()
        async with any_stage.orchestrator():
            [result] = await any_stage.muster.gather([handle])

    assert result.status is State.COMPLETED
    assert result.attempt == 2
    assert len(any_stage.builders.started) == 3 + 2
    _, alone = await any_stage.batch(await any_stage.repository(FILES))
    assert {shard.outcome for shard in alone.repositories[0].shards} == {"applied", "empty"}


async def test_cancelling_a_batch_stops_its_shards(any_stage):
    running = asyncio.Event()

    async def hang(task: TaskRequest) -> None:
        if task.agent != VERIFY:
            running.set()
        await asyncio.Event().wait()

    any_stage.builders.before_start = hang
    async with any_stage.orchestrator(), any_stage.workers():
        [handle] = await any_stage.muster.submit_many([any_stage.batch_request(await any_stage.repository(FILES))])
        await running.wait()
        await any_stage.muster.cancel(handle.task_id, "changed my mind")
        [result] = await any_stage.muster.gather([handle])
        shards = [task.task_id for task in any_stage.builders.shards_started()]
        ended = [shard async for shard in any_stage.muster.results(shards)]

    assert result.status is State.CANCELLED
    assert {shard.status for shard in ended} == {State.CANCELLED}


async def test_shards_that_were_accepted_as_the_batch_was_cancelled_are_stopped_too(any_stage, monkeypatch):
    running, cancelled = asyncio.Event(), asyncio.Event()
    submit = Outbox.submit

    async def slowly(self, requests, **more):
        """As the queue does, but its answer comes only when the batch has been cancelled."""
        handles = await submit(self, requests, **more)
        if any(request.batch_id for request in requests):
            await cancelled.wait()
        return handles

    async def hang(task: TaskRequest) -> None:
        running.set()
        await asyncio.Event().wait()

    any_stage.builders.before_start = hang
    async with any_stage.orchestrator(), any_stage.workers():
        [handle] = await any_stage.muster.submit_many([any_stage.batch_request(await any_stage.repository(FILES))])
        monkeypatch.setattr(Outbox, "submit", slowly)
        await running.wait()
        await any_stage.muster.cancel(handle.task_id, "changed my mind")
        cancelled.set()
        await any_stage.muster.gather([handle])
        shards = [task.task_id for task in any_stage.builders.shards_started()]
        ended = [shard async for shard in any_stage.muster.results(shards)]

    assert shards and {shard.status for shard in ended} == {State.CANCELLED}


async def test_a_batch_that_is_longer_than_its_tenants_line_waits_for_room_and_says_so(any_stage, monkeypatch):
    monkeypatch.setattr(admission, "LINE_RETRY_S", 0.05)
    files = {f"src/{name}.py": f"old {name}\n" for name in "abcdef"}
    given = await any_stage.repository({**files, "tests/t.py": "assert\n"})
    has_waited = asyncio.Event()

    async def start_late(task: TaskRequest) -> None:
        if task.agent != VERIFY:
            await has_waited.wait()

    async def watch(trace_id: str) -> list[WarningRaised]:
        warnings: list[WarningRaised] = []
        async for entry in any_stage.muster.follow(trace_id):
            warnings += [one for one in getattr(entry.message, "events", ()) if isinstance(one, WarningRaised)]
            if warnings:
                has_waited.set()
        return warnings

    any_stage.builders.before_start = start_late
    async with any_stage.orchestrator(), any_stage.workers():
        # Two shards stand in line while the others find no room.
        await any_stage.muster.allot("default", Allotment(max_running=2, max_queued=2), by="me")
        [handle] = await any_stage.muster.submit_many([any_stage.batch_request(given)])
        warnings = await watch(handle.trace_id)
        [result] = await any_stage.muster.gather([handle])

    assert result.status is State.COMPLETED
    assert [warning.message for warning in warnings] == [
        "it waits until there is room: the tenant default would have more than 2 tasks in line"
    ]
    assert "--max-queued" in warnings[0].hint
    assert [file.path for file in result.patch.files] == sorted(files)


def failing_on(path: str, builders):
    def edit(task: TaskRequest, files: dict[str, str]) -> None:
        if path in task.input.params["commands"][0]:
            raise builders.fails("no way")
        builders.modernise(task, files)

    return edit


async def test_a_batch_that_borrows_a_shard_does_it_itself_when_its_owner_is_cancelled(stage, batch_text):
    given = await stage.repository(FILES)
    owner_runs, borrowed = asyncio.Event(), asyncio.Event()

    async def hang(_task: TaskRequest) -> None:
        owner_runs.set()
        await borrowed.wait()

    stage.builders.before_start = hang
    async with stage.orchestrator(), stage.workers():
        [owner] = await stage.muster.submit_many([stage.batch_request(given)])
        await owner_runs.wait()
        second = stage.batch_request(given, text=batch_text + '[publish]\nbranch = "muster/again"\n')
        [borrower] = await stage.muster.submit_many([second])
        await spawned(stage, borrower, 3)
        stage.builders.before_start = None
        await stage.muster.cancel(owner.task_id)
        [result] = await stage.muster.gather([borrower])
        borrowed.set()

    assert result.status is State.COMPLETED
    assert len(BatchReport.model_validate(result.output.structured).shards) == 3


async def test_one_repository_whose_gate_cannot_run_stops_no_other(stage):
    good, bad = await stage.repository(FILES), await stage.repository({**FILES, "README": "bad\n"}, name="bad")
    stage.builders.broken_base = bad.base

    result, report = await stage.batch(good, bad)

    assert [(one.name, one.verified, one.changed) for one in report.repositories] == [
        ("demo", True, True),
        ("bad", False, False),
    ]
    assert [error.code for error in result.errors] == [ErrorCode.SETUP_FAILED]
    assert [file.path for file in result.patch.files] == ["src/a.py", "src/b.py"]


async def test_a_gate_that_never_ends_is_a_failed_gate_and_the_batch_goes_on(stage, monkeypatch, batch_text):
    verify = stage.builders._verify

    async def hang_on_the_change(task: TaskRequest) -> dict[str, Any]:
        answer = await verify(task)
        [step] = answer["output"].structured["steps"]
        if task.workspace.bundle == slow.bundle and task.workspace.changes:
            step |= {"exit_code": 137, "timed_out": True, "tests": None}
        return answer

    monkeypatch.setattr(stage.builders, "_verify", hang_on_the_change)
    good, slow = await stage.repository(FILES), await stage.repository({**FILES, "README": "slow\n"}, name="slow")

    result, report = await stage.batch(good, slow, text=f"{batch_text}timeout_s = 7\n{AT_THE_END}")

    assert [(one.name, one.verified, one.changed) for one in report.repositories] == [
        ("demo", True, True),
        ("slow", False, True),
    ]
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "slow: the gate fails: `run-tests`: timed out" in result.errors[0].message
    assert CODES[result.errors[0].code].exit_code is ExitCode.NOT_ACCEPTABLE
    asked = [task for task in stage.builders.started if task.agent == "verify"]
    assert {task.input.params["timeout_s"] for task in asked} == {7}


async def test_agents_share_the_budget_and_get_the_prompt_of_their_file(stage, batch_text):
    recipe = 'recipe = ["fix {path}"]'
    text = batch_text.replace(recipe, 'agent = "build"\nprompt = "Renew {path}, {not this}."')
    stage.builders.edit = lambda task, files: None

    await stage.batch(await stage.repository(FILES), text=text + "[limits]\nbudget_usd = 1.0\n")

    shards = stage.builders.shards_started()
    assert {shard.input.prompt for shard in shards} == {f"Renew src/{name}.py, {{not this}}." for name in "abc"}
    assert {shard.budget.max_cost_microusd for shard in shards} == {333_333}
    assert {shard.agent for shard in shards} == {"build"}


async def spawned(stage, handle, count: int) -> None:
    """Wait until a batch has told of so many tasks."""
    seen = 0
    async for entry in stage.muster.follow(handle.trace_id):
        seen += sum(isinstance(event, ChildSpawned) for event in getattr(entry.message, "events", ()))
        if seen >= count:
            return


AGENT_BATCH = """
name = "modernise"
[[repositories]]
path = "."
[shards]
glob = "src/*.py"
[[steps]]
agent = "build"
prompt = "modernise {path}"
[gate]
commands = ["run-tests"]
"""


def errors_until_mended(files: dict[str, str]) -> dict[str, int]:
    """What cannot be collected, as long as a file of src is old."""
    is_old = any("old" in text for path, text in files.items() if path.startswith("src/"))
    return {"passed": 0 if is_old else 2, "failed": 0, "errors": int(is_old), "skipped": 0}


async def test_a_repository_whose_gate_cannot_run_on_the_base_costs_nothing(stage):
    stage.builders.tests = errors_until_mended

    result, report = await stage.batch(await stage.repository(FILES), text=AGENT_BATCH)

    assert stage.builders.shards_started() == []
    assert [error.code for error in result.errors] == [ErrorCode.BROKEN_BASE]
    [repository] = report.repositories
    assert [one.code for one in repository.evidence.objections] == ["broken_base"]
    assert "1 error outside of tests" in repository.reason
    assert repository.before is not None and not repository.before.passed


async def test_where_a_person_lets_it_be_done_all_the_same_it_lands_unproved(stage):
    stage.builders.tests = errors_until_mended
    stage.builders.edit = lambda _task, files: files.update({"src/a.py": "new\n", "src/b.py": "new\n"})

    result, report = await stage.batch(
        await stage.repository({**FILES, "src/c.py": "new\n"}), text=AGENT_BATCH + 'broken_base = "allow"\n'
    )

    assert result.errors == ()
    [repository] = report.repositories
    assert (repository.changed, repository.verified, repository.evidence.result) == (True, False, "done")
    assert "the gate cannot run on the base" in repository.reason
