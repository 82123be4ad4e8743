"""A gate that cannot be run proves nothing: what the shards made, and what it cost, is in the report all the same."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from orchestrator.batch.failures import TRIES
from orchestrator.submit import VERIFY

FILES = {f"src/m{n}.py": "old\n" for n in range(3)} | {"tests/t.py": "assert\n"}
COST = 7


def lose(builders, is_lost):
    """The sandbox of the gate on such files is lost."""

    def tests(files):
        if is_lost(files):
            raise builders.fails("its sandbox is gone")
        return count(files)

    count, builders.tests = builders.tests, tests
    builders.code = lambda _: ErrorCode.SANDBOX
    builders.cost = lambda task: 0 if task.agent == VERIFY else COST


def gates(builders):
    return [task for task in builders.started if task.agent == VERIFY]


def changed(files):
    return [path for path, text in files.items() if text.startswith("new")]


@pytest.mark.parametrize("is_lost", [lambda files: not changed(files), changed], ids=["on the base", "on the change"])
async def test_a_gate_that_cannot_be_run_leaves_shards_and_costs_in_the_report(stage, is_lost):
    lose(stage.builders, is_lost)

    result, report = await stage.batch(await stage.repository(FILES))

    [repository] = report.repositories
    assert [shard.outcome for shard in repository.shards] == ["applied"] * 3
    assert repository.changed and not repository.verified and report.cost_microusd == 3 * COST
    assert repository.reason == "the gate could not be run: its sandbox is gone"
    assert [error.code for error in result.errors] == [ErrorCode.SANDBOX]
    assert [file.path for file in result.patch.files] == ["src/m0.py", "src/m1.py", "src/m2.py"]
    assert len([task for task in gates(stage.builders) if task.retry_of]) == TRIES[ErrorCode.SANDBOX] - 1


async def test_each_run_of_the_gate_is_tried_once_more_elsewhere(stage):
    seen = set()

    def is_first(files):
        return str(files) not in seen and not seen.add(str(files))

    lose(stage.builders, is_first)

    result, report = await stage.batch(await stage.repository(FILES))

    assert report.verified and result.errors == ()
    assert [bool(task.retry_of) for task in gates(stage.builders)] == [False, True, False, True]


async def test_nobody_is_blamed_where_the_gate_cannot_be_run(stage):
    """All three together fail, and each half of the search for the one that does is lost."""
    lose(stage.builders, lambda files: 0 < len(changed(files)) < 3)
    stage.builders.edit = lambda task, files: (
        stage.builders.modernise(task, files),
        files.update({"src/m2.py": files["src/m2.py"].replace("new\n", "new\nfail\n")}),
    )

    result, report = await stage.batch(await stage.repository(FILES))

    [repository] = report.repositories
    assert [shard.outcome for shard in repository.shards] == ["applied"] * 3
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "the gate fails" in repository.reason


FOLDERS = """
name = "modernise"
[[repositories]]
path = "."
[shards]
directories = "pkg/*"
[[steps]]
recipe = ["fix {path}"]
[gate]
commands = ["run-tests"]
"""


async def test_a_shard_whose_tests_cannot_be_put_back_is_set_aside_alone(stage):
    files = {
        f"pkg/{name}/{file}": text
        for name in "abc"
        for file, text in {"m.py": "old\n", "test_m.py": "assert\n"}.items()
    }

    def edit(task, found):
        folder = task.input.params["commands"][0].removeprefix("fix ").strip("'")
        found[f"{folder}/m.py"] = "new\n"
        if folder == "pkg/b":  # with the file of tests in place there can be no folder of its name
            del found["pkg/b/test_m.py"]
            found |= {"pkg/b/test_m.py/x": "1\n", "pkg/b/test_n.py": "assert\n"}

    stage.builders.edit = edit

    result, report = await stage.batch(await stage.repository(files), text=FOLDERS)

    [repository] = report.repositories
    assert [shard.outcome for shard in repository.shards] == ["applied", "set_aside", "applied"]
    assert repository.verified
    assert [file.path for file in result.patch.files] == ["pkg/a/m.py", "pkg/c/m.py"]
    assert "cannot be done to the tests as they were" in repository.shards[1].detail
