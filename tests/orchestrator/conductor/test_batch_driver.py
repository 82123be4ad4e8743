"""Batches from the request to the report, on both transports; only the workers' part is scripted."""

from __future__ import annotations

import asyncio

import pytest

from envelope.errors import CODES, ErrorCode, ExitCode
from envelope.events import ChildEnded, ChildSpawned, GateVerdict, MergeStep
from envelope.lifecycle import State
from envelope.messages import TaskRequest
from orchestrator.session import fold, new_session
from orchestrator.submit import VERIFY
from repo.mirror import mirror_of

BATCH = """
name = "modernise"
[[repositories]]
path = "."
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["fix {path}"]
[gate]
commands = ["run-tests"]
"""
FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "src/c.py": "fine c\n", "tests/t.py": "assert\nassert\n"}


def modernise(task: TaskRequest, files: dict[str, str]) -> None:
    """What the recipe `fix PATH` of the test's batch does."""
    path = task.input.params["commands"][0].removeprefix("fix ")
    files[path] = files[path].replace("old", "new")


@pytest.fixture(autouse=True)
def _modernising(stage):
    stage.builders.edit = modernise


async def test_disjoint_shards_are_merged_and_verified(stage):
    given = await stage.repository(FILES)

    result, report = await stage.batch(given, text=BATCH)

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
    assert b"+new a" in await stage.muster.diff(result.task_id)
    assert "demo: verified" in result.output.text


async def test_the_merged_commit_travels_in_a_bundle(stage, tmp_path):
    given = await stage.repository(FILES)

    result, report = await stage.batch(given, text=BATCH)

    file = tmp_path / "merged.bundle"
    file.write_bytes(await stage.muster.attachment(result, report.repositories[0].bundle))
    mirror = await mirror_of(tmp_path / "elsewhere", bundle=file, commit=report.repositories[0].commit)
    assert await mirror.has(given.base)


async def test_a_shard_is_a_trace_of_its_own_that_may_edit_its_file_alone(stage):
    given = await stage.repository(FILES)

    result, _ = await stage.batch(given, text=BATCH)

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
    result, _ = await stage.batch(given, text=BATCH)

    events = []
    session = new_session(result.task_id, result.trace_id)
    async for entry in stage.muster.follow(result.trace_id):
        session = fold(session, entry)
        events += getattr(entry.message, "events", ())

    spawned = {event.child_task_id for event in events if isinstance(event, ChildSpawned)}
    assert spawned == {event.child_task_id for event in events if isinstance(event, ChildEnded)}
    assert set(session.root_task.children) == spawned
    assert [event.outcome for event in events if isinstance(event, MergeStep)] == ["applied", "applied", "empty"]
    assert [(event.phase, event.passed) for event in events if isinstance(event, GateVerdict)] == [
        ("before", True),
        ("after", True),
    ]
    assert session.root_task.state is State.COMPLETED


async def test_two_runs_of_the_same_batch_are_one(stage):
    given = await stage.repository(FILES)
    first, _ = await stage.batch(given, text=BATCH)

    second, _ = await stage.batch(given, text=BATCH)

    assert second == first
    assert len(stage.builders.started) == 3 + 2  # each shard once, the gate before and after


async def test_the_same_work_in_another_batch_is_reused_and_makes_the_same_commit(stage):
    given = await stage.repository(FILES)
    _, first = await stage.batch(given, text=BATCH)

    _, second = await stage.batch(given, text=BATCH + '[publish]\nbranch = "muster/again"\n')

    assert all(shard.reused for shard in second.repositories[0].shards)
    assert len(stage.builders.shards_started()) == 3
    assert second.repositories[0].commit == first.repositories[0].commit
    assert second.branch == "muster/again"


async def test_overlapping_patches_are_named_with_both_sides_and_the_rest_lands(stage):
    def quarrel(task, files):
        modernise(task, files)
        files["NEWS"] = f"{task.input.params['commands'][0]}\n"

    stage.builders.edit = quarrel
    given = await stage.repository({**FILES, "NEWS": "nothing\n"})

    result, report = await stage.batch(given, text=BATCH.replace("[shards]", '[shards]\nalso_edit = ["NEWS"]'))

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
    assert [error.code for error in result.errors] == [ErrorCode.COLLISION, ErrorCode.COLLISION]
    assert result.errors[0].message == "demo: src/b.py collides with src/a.py in NEWS"
    assert repository.verified  # what landed did pass the gate


async def test_a_patch_outside_its_shards_scope_is_set_aside_even_if_a_worker_sends_it(stage):
    given = await stage.repository(FILES)
    stage.builders.honest = False

    def stray(task, files):
        modernise(task, files)
        if "src/a.py" in task.input.params["commands"][0]:
            files["tests/t.py"] = "assert\n" * 9

    stage.builders.edit = stray

    result, report = await stage.batch(given, text=BATCH)

    first = report.repositories[0].shards[0]
    assert (first.key, first.outcome) == ("src/a.py", "set_aside")
    assert [file.path for file in result.patch.files] == ["src/b.py"]
    assert "tests/t.py, which is not in the shard's scope" in result.errors[0].message


async def test_a_failing_gate_is_not_acceptable_and_the_patch_is_kept(stage):
    def break_it(task, files):
        modernise(task, files)
        files["src/a.py"] += "fail\n"

    stage.builders.edit = break_it

    result, report = await stage.batch(await stage.repository(FILES), text=BATCH)

    assert result.status is State.ERROR
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert CODES[result.errors[0].code].exit_code is ExitCode.NOT_ACCEPTABLE
    assert "the gate fails: `run-tests`: exit code 1" in result.errors[0].message
    assert result.patch is not None and not report.verified


@pytest.mark.parametrize(
    ("tests_of", "reason"),
    [
        (lambda files: None, "no test that could be counted"),
        (lambda files: {"passed": 0, "failed": 0, "errors": 0, "skipped": 9}, "ran 0 tests"),
        (
            lambda files: {"passed": 2 if "old a" in files["src/a.py"] else 1, "failed": 0, "errors": 0, "skipped": 0},
            "ran 1 tests, fewer than the 2 before",
        ),
    ],
    ids=["uncounted", "all skipped", "fewer"],
)
async def test_a_gate_that_proves_nothing_verifies_nothing(stage, tests_of, reason):
    stage.builders.tests = tests_of

    result, report = await stage.batch(await stage.repository(FILES), text=BATCH)

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert reason in report.repositories[0].reason


async def test_a_base_that_fails_already_is_said_and_not_blamed(stage):
    given = await stage.repository({**FILES, "tests/t.py": "assert\nfail\n"})

    result, report = await stage.batch(given, text=BATCH)

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "fails on the base already and no worse now (1 failed before, 1 after)" in report.repositories[0].reason


async def test_a_shard_that_fails_leaves_the_rest_to_land(stage):
    stage.builders.edit = failing_on("src/b.py", stage.builders.fails)

    result, report = await stage.batch(await stage.repository(FILES), text=BATCH)

    assert [error.code for error in result.errors] == [ErrorCode.PARTIAL]
    assert CODES[result.errors[0].code].exit_code is ExitCode.PARTIAL
    assert "1 of 3 shards failed; src/b.py: no way" in result.errors[0].message
    assert report.repositories[0].verified
    assert [file.path for file in result.patch.files] == ["src/a.py"]


async def test_a_batch_that_failed_is_repeated_with_what_succeeded_reused(stage):
    stage.builders.edit = failing_on("src/b.py", stage.builders.fails)
    given = await stage.repository(FILES)
    first, _ = await stage.batch(given, text=BATCH)
    stage.builders.edit = modernise

    second, report = await stage.batch(given, text=BATCH)

    assert (await stage.muster.request(second.task_id)).retry_of == first.task_id
    assert second.status is State.COMPLETED
    assert [(shard.key, shard.reused) for shard in report.repositories[0].shards] == [
        ("src/a.py", True),
        ("src/b.py", False),
        ("src/c.py", True),
    ]


async def test_when_all_shards_fail_the_batch_fails_as_the_first_one_did(stage):
    stage.builders.edit = failing_on("", stage.builders.fails)

    result, report = await stage.batch(await stage.repository(FILES), text=BATCH)

    assert [error.code for error in result.errors] == [ErrorCode.RECIPE_FAILED]
    assert result.patch is None
    assert report.repositories[0].commit == report.repositories[0].base


async def test_a_glob_without_files_is_the_callers_mistake(stage):
    result = await stage.run(stage.batch_request(await stage.repository({"README": "x\n"}), text=BATCH))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT]
    assert "'src/*.py' matches no file of demo" in result.errors[0].message


async def test_an_orchestrator_that_goes_away_in_the_middle_submits_nothing_twice(stage):
    """The first orchestrator drains while shards run; the next one goes on, and ends with the same commit."""
    untouched = await stage.repository(FILES)
    gate_open = asyncio.Event()
    two_started = asyncio.Event()

    async def hold(task: TaskRequest) -> None:
        if len(stage.builders.shards_started()) >= 2:
            two_started.set()
        await gate_open.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(untouched, text=BATCH)])
            await two_started.wait()
        gate_open.set()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    assert result.status is State.COMPLETED
    assert result.attempt == 2
    assert len(stage.builders.started) == 3 + 2
    _, alone = await stage.batch(await stage.repository(FILES), text=BATCH)
    assert {shard.outcome for shard in alone.repositories[0].shards} == {"applied", "empty"}


async def test_cancelling_a_batch_stops_its_shards(stage):
    running = asyncio.Event()

    async def hang(task: TaskRequest) -> None:
        if task.agent != VERIFY:
            running.set()
        await asyncio.Event().wait()

    stage.builders.before_start = hang
    async with stage.orchestrator(), stage.workers():
        [handle] = await stage.muster.submit_many([stage.batch_request(await stage.repository(FILES), text=BATCH)])
        await running.wait()
        await stage.muster.cancel(handle.task_id, "changed my mind")
        [result] = await stage.muster.gather([handle])
        shards = [task.task_id for task in stage.builders.shards_started()]
        ended = [shard async for shard in stage.muster.results(shards)]

    assert result.status is State.CANCELLED
    assert {shard.status for shard in ended} == {State.CANCELLED}


def failing_on(path: str, failure: type[Exception]):
    def edit(task: TaskRequest, files: dict[str, str]) -> None:
        from_command = task.input.params["commands"][0]
        if path in from_command:
            raise failure("no way")
        modernise(task, files)

    return edit
