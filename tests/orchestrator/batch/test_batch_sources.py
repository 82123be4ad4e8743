"""Where shards come from, and what makes one new."""

from __future__ import annotations

import json

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.batch.chosen import OUTPUT, undone_in
from orchestrator.batch.contents import with_contents
from orchestrator.batch.file import parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.batch.shards import Shard

FILES = {
    "src/a.py": "old(a)\n",
    "src/b.py": "old(b) older(b)\nold(c)\n",
    "src/c.py": "fine\n",
    "docs/x.txt": "old(d)\n",
    "tests/t.py": "assert\nassert\n",
}


def shards_by(text: str, way: str) -> str:
    return text.replace('glob = "src/*.py"', way)


def asking(text: str, prompt: str) -> str:
    return text.replace('recipe = ["fix {path}"]', f'agent = "build"\nprompt = "{prompt}"')


def renewing(stage):
    """The agent modernises the file that its prompt names first."""

    def edit(task, files):
        path = task.input.prompt.split()[1].rstrip(":")
        files[path] = files[path].replace("old", "new")

    stage.builders.edit = edit


@pytest.mark.parametrize(
    ("way", "prompts"),
    [
        ("match = 'old\\([a-c]\\)'", ["Mend src/a.py: old(a) in 1.", "Mend src/b.py: old(b), old(c) in 1, 2."]),
        ("symbol = 'older'", ["Mend src/b.py: older in 1."]),
        ("symbol = 'old'\nglob = 'docs/**'", ["Mend docs/x.txt: old in 1."]),
        ("match = 'old'\nexclude = ['src/**']", ["Mend docs/x.txt: old in 1."]),
    ],
)
async def test_files_in_which_something_stands_are_shards_that_know_it(stage, batch_text, way, prompts):
    renewing(stage)
    text = asking(shards_by(batch_text, way), "Mend {path}: {match} in {lines}.")

    result, _ = await stage.batch(await stage.repository(FILES), text=text)

    assert result.status is State.COMPLETED
    assert sorted(task.input.prompt for task in stage.builders.shards_started()) == prompts


async def test_a_repository_in_which_nothing_is_found_is_no_part_of_the_batch(stage, batch_text):
    renewing(stage)
    with_it, without = await stage.repository(FILES), await stage.repository({"a": "x\n"}, name="other")
    text = asking(shards_by(batch_text, "symbol = 'older'"), "Mend {path}: {symbol}")

    result, report = await stage.batch(with_it, without, text=text)
    nothing = await stage.run(stage.batch_request(without, text=text))

    assert (result.status, [one.name for one in report.repositories]) == (State.COMPLETED, ["demo"])
    assert [error.code for error in nothing.errors] == [ErrorCode.BAD_INPUT]
    assert "what `symbol` finds is nothing, in all repositories" in nothing.errors[0].message


async def test_what_is_no_expression_is_said(stage, batch_text):
    text = shards_by(batch_text, "match = 'old('")

    result = await stage.run(stage.batch_request(await stage.repository(FILES), text=text))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT]
    assert "shards.match: git cannot search for 'old('" in result.errors[0].message


@pytest.mark.parametrize(
    ("printed", "prompts"),
    [
        ("src/a.py\n./src/b.py\nsrc/a.py\n\n", ["Mend src/a.py {rule}", "Mend src/b.py {rule}"]),
        (json.dumps({"file": "src/a.py", "rule": "R1 {path}"}), ["Mend src/a.py R1 {path}"]),
        ("src\n", ["Mend src {rule}"]),
    ],
    ids=["paths", "objects", "folder"],
)
async def test_what_a_command_prints_in_a_sandbox_are_shards(stage, batch_text, printed, prompts):
    printing(stage, printed)
    text = asking(shards_by(batch_text, 'command = "list-them"'), "Mend {path} {rule}")

    result, _ = await stage.batch(await stage.repository(FILES), text=text)

    assert result.errors == ()
    [listing, *shards] = stage.builders.shards_started()
    assert listing.agent == "recipe" and "list-them" in listing.input.params["commands"][0]
    assert not [grant for grant in listing.auth_scope if grant.startswith("edit:")]
    assert sorted(task.input.prompt for task in shards) == prompts


@pytest.mark.parametrize(
    ("printed", "code", "message"),
    [
        ("src/none.py\n", ErrorCode.BAD_INPUT, "shards.command printed 'src/none.py', which demo does not have"),
        ("../../etc/passwd\n", ErrorCode.BAD_INPUT, "which demo does not have"),
        ("", ErrorCode.BAD_INPUT, "what `command` finds is nothing"),
        (None, ErrorCode.RECIPE_FAILED, "no such program"),
    ],
)
async def test_a_command_that_gives_no_shards_submits_none(stage, batch_text, printed, code, message):
    printing(stage, printed)
    text = asking(shards_by(batch_text, 'command = "list-them"'), "Mend {path}")

    result = await stage.run(stage.batch_request(await stage.repository(FILES), text=text))

    assert [error.code for error in result.errors] == [code]
    assert message in result.errors[0].message
    assert len(stage.builders.shards_started()) == 1


async def test_an_output_that_did_not_come_back_is_no_empty_one(stage, batch_text):
    stage.builders.edit = lambda task, files: None
    text = shards_by(batch_text, 'command = "list-them"')

    result = await stage.run(stage.batch_request(await stage.repository(FILES), text=text))

    assert [error.code for error in result.errors] == [ErrorCode.BAD_INPUT]
    assert "what shards.command printed for demo did not come back" in result.errors[0].message


def printing(stage, text: str | None):
    def edit(task, files):
        if task.agent == "recipe" and text is None:
            raise stage.builders.fails("no such program")

    stage.builders.edit = edit
    stage.builders.leaves = lambda task: {OUTPUT: text or ""} if task.agent == "recipe" else {}


async def test_what_an_earlier_batch_left_undone_are_shards_that_know_why(stage, batch_text):
    def edit(task, files):
        if "src/b.py" in task.input.params["commands"][0]:
            raise stage.builders.fails("no way")

    stage.builders.edit = edit
    given, other = await stage.repository(FILES), await stage.repository({"src/z.py": "x\n"}, name="other")
    _, earlier = await stage.batch(given, other)
    stage.builders.edit = lambda task, files: None
    stage.builders.started.clear()

    text = asking(shards_by(batch_text, 'failures_of = "0123"'), "Mend {path}, which failed: {failure}")
    spec = parse_batch(text, name="b.toml")
    result = await stage.run(
        batch_request(spec, [given, other], settings=stage.muster.settings, found=undone_in(earlier))
    )

    assert result.status is State.COMPLETED
    assert [task.input.prompt for task in stage.builders.shards_started()] == ["Mend src/b.py, which failed: no way"]


async def again_after(stage, changed: dict[str, str], text: str) -> tuple[list[str], object]:
    """A batch, then the same on another commit: which shards were done anew, and how it ended."""
    first = await stage.repository({**FILES, "src/a.py": "old\na\n"})
    await stage.batch(first, text=text)
    before = len(stage.builders.shards_started())
    second = await stage.repository({**FILES, "src/a.py": "old\na\n", **changed})
    result, report = await stage.batch(second, text=text)
    anew = [task.input.params["commands"][0] for task in stage.builders.shards_started()[before:]]
    return sorted(anew), (result, report)


@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        ({"src/b.py": "old(b) and more\n"}, ["fix src/b.py"]),
        ({"docs/x.txt": "else\n"}, []),
        ({"src/new.py": "old\n"}, ["fix src/new.py"]),
        ({"pyproject.toml": "[tool]\n"}, ["fix src/a.py", "fix src/b.py", "fix src/c.py"]),
    ],
    ids=["one file", "another file", "a new file", "what all depend on"],
)
async def test_a_second_run_does_only_what_changed(stage, batch_text, changed, anew):
    done, (result, report) = await again_after(stage, changed, batch_text)

    assert done == anew
    assert (result.status, report.verified) == (State.COMPLETED, True)
    assert report.repositories[0].count("applied") == 2 + ("src/new.py" in changed)
    assert b"-old\n+new\n a\n" in await stage.muster.diff(result.task_id)


async def test_a_change_that_no_longer_fits_is_made_anew(stage, batch_text):
    """It edits a file beside its own, which has changed since."""

    def edit(task, files):
        stage.builders.modernise(task, files)
        if "src/a.py" in task.input.params["commands"][0]:
            files["docs/x.txt"] = files["docs/x.txt"].replace("old", "new")

    stage.builders.edit = edit
    text = batch_text.replace("[shards]", '[shards]\nalso_edit = ["docs/**"]')

    done, (result, report) = await again_after(stage, {"docs/x.txt": "very old(d)\n"}, text)

    assert done == ["fix src/a.py"]
    assert (result.status, report.verified) == (State.COMPLETED, True)
    assert b"+very new(d)" in await stage.muster.diff(result.task_id)


async def test_a_change_that_would_land_in_a_similar_place_is_made_anew(stage, batch_text):
    """A file beside its own has got a second place of the same looks, right where the first one was."""
    block = "x\ny\nz\nold\nx\ny\nz\n"

    def edit(task, files):
        stage.builders.modernise(task, files)
        if "src/a.py" in task.input.params["commands"][0]:
            files["docs/x.txt"] = "new".join(files["docs/x.txt"].rsplit("old", 1))  # the last one

    stage.builders.edit = edit
    text = batch_text.replace("[shards]", '[shards]\nalso_edit = ["docs/**"]')
    first = await stage.repository({**FILES, "docs/x.txt": block})
    await stage.batch(first, text=text)
    before = len(stage.builders.shards_started())

    result, report = await stage.batch(await stage.repository({**FILES, "docs/x.txt": block + "\n" + block}), text=text)

    anew = [task.input.params["commands"][0] for task in stage.builders.shards_started()[before:]]
    assert (anew, report.verified) == (["fix src/a.py"], True)
    assert b"@@ -9,7 +9,7 @@" in await stage.muster.diff(result.task_id)  # in the second one


def test_a_folder_depends_on_what_is_in_it():
    blobs = {"a/x": "1", "a/y": "2", "a-b/z": "3", "b/x": "4"}

    def words(blobs: dict[str, str]) -> list[str]:
        shards = with_contents([Shard("a/"), Shard("b/"), Shard(".")], blobs, ())
        return [shard.content for shard in shards]

    before = words(blobs)
    assert [old == new for old, new in zip(before, words(blobs | {"a-b/z": "5"}), strict=True)] == [True, True, False]
    assert [old == new for old, new in zip(before, words(blobs | {"a/n": "5"}), strict=True)] == [False, True, False]
