"""What a batch does with patches that meet, and with those that break the gate."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envelope.errors import ErrorCode
from envelope.events import ChildEnded
from envelope.lifecycle import State
from envelope.messages import FileStat, PatchRef, TaskResult
from orchestrator.batch.file import parse_batch
from orchestrator.batch.formats import FORMATS
from orchestrator.batch.merge import material_of
from orchestrator.batch.merge_overlaps import foreseen
from orchestrator.batch.merge_rules import MergeRules
from orchestrator.batch.report import MAX_LISTED, BatchReport
from orchestrator.driver import Ended, Work
from orchestrator.repositories import fetch_mirror
from orchestrator.submit import VERIFY
from repo.merge import Collision, Merged

COUNT = 8
FILES = {f"src/m{n}.py": "old\n" for n in range(COUNT)} | {"tests/t.py": "assert\nassert\n"}
FOUR = {path: text for path, text in FILES.items() if path[5] not in "4567"}
SHARED = '[shards]\nalso_edit = ["NEWS", "lib.py"]'


def path_of(task):
    return task.input.params["commands"][0].removeprefix("fix ")


def edits(builders, extra):
    """The usual recipe, and then `extra(path, files)`."""

    def edit(task, files):
        builders.modernise(task, files)
        extra(path_of(task), files)

    builders.edit = edit


def gate_runs(builders):
    """Those after a change."""
    return [task for task in builders.started if task.agent == VERIFY and task.workspace.changes]


def proved(builders):
    """The states of which there were runs: a failure is looked at again."""
    return {task.workspace.changes for task in gate_runs(builders)}


async def test_the_patch_that_breaks_the_gate_is_found_by_halving_and_the_rest_lands_verified(stage):
    def break_it(path, files):
        if path == "src/m5.py":
            files[path] += "fail\n"

    edits(stage.builders, break_it)

    result, report = await stage.batch(await stage.repository(FILES))

    [repository] = report.repositories
    assert repository.verified
    assert {shard.key for shard in repository.shards if shard.outcome == "applied"} == set(FILES) - {
        "src/m5.py",
        "tests/t.py",
    }
    [blamed] = [shard for shard in repository.shards if shard.outcome == "set_aside"]
    assert (blamed.key, blamed.code) == ("src/m5.py", ErrorCode.GATE_FAILED)
    assert "with it the gate fails: `run-tests`: exit code 1" in blamed.detail
    assert blamed.evidence.failed == 1 and not blamed.evidence.passed
    assert "src/m5.py" not in [file.path for file in result.patch.files]
    assert [error.code for error in result.errors] == [ErrorCode.PARTIAL]
    assert len(proved(stage.builders)) <= 1 + 3 + 1  # all of it, halves of eight, the rest


@pytest.mark.parametrize("breaks", [True, False])
async def test_where_nothing_lands_nothing_is_verified(stage, batch_text, breaks):
    """That the base passes its own gate is nobody's work."""

    def edit(path, files):
        files[path] += "fail\n"

    if breaks:
        edits(stage.builders, edit)
    else:
        stage.builders.edit = lambda _task, _files: None

    result, report = await stage.batch(await stage.repository(FOUR))

    [repository] = report.repositories
    assert (repository.changed, repository.verified, report.verified) == (False, False, False)
    assert repository.reason == "nothing landed, so there is nothing to verify"
    assert (repository.evidence.result, repository.after) == ("rejected" if breaks else "done", None)
    codes = [objection.code for objection in repository.evidence.objections]
    assert codes == (["failed"] * len(repository.shards) if breaks else [])
    assert [error.code for error in result.errors] == ([ErrorCode.GATE_FAILED] if breaks else [])


async def test_two_that_break_it_only_together_cost_one_of_them(stage):
    """Each alone passes: the one that comes second is set aside."""

    def together(files):
        failed = 1 if {"new1", "new2"} <= {text.strip() for text in files.values()} else 0
        return {"passed": 2, "failed": failed, "errors": 0, "skipped": 0}

    files = FOUR | {"src/m1.py": "old1\n", "src/m2.py": "old2\n"}
    stage.builders.tests = together

    _, report = await stage.batch(await stage.repository(files))

    [repository] = report.repositories
    assert repository.verified
    assert [shard.key for shard in repository.shards if shard.outcome == "set_aside"] == ["src/m2.py"]


async def test_a_patch_that_collided_with_the_culprit_lands_in_its_place(stage, batch_text):
    def quarrel(path, files):
        if path in ("src/m0.py", "src/m1.py"):
            files["NEWS"] = f"{path}\n"
        if path == "src/m0.py":
            files[path] += "fail\n"

    edits(stage.builders, quarrel)
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n\n\n\n", "NEWS": "none\n", "tests/t.py": "assert\n"}
    text = batch_text.replace("[shards]", SHARED) + '[merge]\nfirst = ["src/m0.py"]\n'

    _, report = await stage.batch(await stage.repository(files), text=text)

    [repository] = report.repositories
    outcomes = {shard.key: shard.outcome for shard in repository.shards}
    assert outcomes == {"src/m0.py": "set_aside", "src/m1.py": "applied"}
    assert repository.verified and repository.collisions == ()


async def test_a_gate_after_each_patch_sees_what_the_end_does_not(stage, batch_text):
    """The second patch hides what the first one broke."""

    def hidden(files):
        failed = files["src/m0.py"] == "new\n" and files["src/m1.py"] == "old\n"
        return {"passed": 2, "failed": int(failed), "errors": 0, "skipped": 0}

    stage.builders.tests = hidden
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n"}

    _, report = await stage.batch(await stage.repository(files), text=batch_text + '[merge]\ngate = "each"\n')

    assert {shard.key: shard.outcome for shard in report.repositories[0].shards} == {
        "src/m0.py": "set_aside",
        "src/m1.py": "applied",
    }


@pytest.mark.parametrize(("reruns", "runs"), [(0, 3), (1, 4)])
async def test_a_bisection_that_ran_out_of_runs_says_that_the_gate_fails(stage, batch_text, reruns, runs):
    """Every run counts, also the second one of a state that fails; what is begun is ended."""
    edits(stage.builders, lambda path, files: files.update({path: files[path] + "fail\n"}))
    text = f"{batch_text}reruns = {reruns}\n[merge]\nmax_gate_runs = 3\n"

    result, report = await stage.batch(await stage.repository(FILES), text=text)

    [repository] = report.repositories
    assert not report.verified
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert len(gate_runs(stage.builders)) == runs
    assert {shard.outcome for shard in repository.shards} == {"applied"}
    assert f"stopped after {runs} runs of it (merge.max_gate_runs)" in repository.evidence.notes[-1]


async def test_a_gate_after_each_patch_stops_when_its_runs_are_spent_and_says_so(stage, batch_text):
    edits(stage.builders, lambda path, files: None)
    text = batch_text + '[merge]\ngate = "each"\nmax_gate_runs = 3\n'

    _, report = await stage.batch(await stage.repository(FILES), text=text)

    [repository] = report.repositories
    assert len(gate_runs(stage.builders)) == 3 + 1  # the first three states, and what landed
    assert (repository.verified, repository.count("applied")) == (True, COUNT)
    assert "stopped after 3 runs of it (merge.max_gate_runs)" in repository.evidence.notes[-1]


async def test_when_every_patch_breaks_the_gate_nothing_lands_and_the_batch_failed_by_it(stage):
    edits(stage.builders, lambda path, files: files.update({path: files[path] + "fail\n"}))
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n", "tests/t.py": "assert\n"}

    result, report = await stage.batch(await stage.repository(files))

    assert result.patch is None and result.status is State.ERROR
    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert {shard.outcome for shard in report.repositories[0].shards} == {"set_aside"}


async def test_what_speaks_against_the_only_patch_is_in_the_report(stage):
    edits(stage.builders, lambda path, files: files.update({path: files[path] + "fail\n"}))

    _, report = await stage.batch(await stage.repository({"src/m0.py": "old\n", "tests/t.py": "assert\n"}))

    [repository] = report.repositories
    [shard] = repository.shards
    assert [objection.code for objection in shard.objections] == ["failed"]
    assert (repository.evidence.result, repository.evidence.objections) == ("rejected", shard.objections)
    assert shard.hint == shard.objections[0].hint and shard.hint not in shard.detail
    told = [json.loads(line) for line in FORMATS["jsonl"](report).splitlines()]
    assert [line["objections"][0]["code"] for line in told if line["kind"] == "shard"] == ["failed"]
    assert [line["evidence"]["objections"][0]["code"] for line in told if line["kind"] == "repository"] == ["failed"]
    assert "gate_failed" in FORMATS["sarif"](report)


async def test_an_orchestrator_that_goes_away_while_it_bisects_is_followed_by_one_that_repeats_no_run(stage):
    edits(stage.builders, lambda path, files: files.update({path: files[path] + "fail\n" * (path == "src/m2.py")}))
    gate_open, bisecting = asyncio.Event(), asyncio.Event()

    async def hold(_task):
        if len(gate_runs(stage.builders)) == 2:
            bisecting.set()
            await gate_open.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(await stage.repository(FOUR))])
            await bisecting.wait()
        gate_open.set()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    [repository] = BatchReport.model_validate(result.output.structured).repositories
    assert result.attempt == 2 and repository.verified
    assert [shard.key for shard in repository.shards if shard.outcome == "set_aside"] == ["src/m2.py"]
    keys = [task.idempotency_key for task in gate_runs(stage.builders)]
    assert len(keys) == len(set(keys)) and len(proved(stage.builders)) <= 1 + 2 + 1


# a file of each kind, and what two shards put at its end
LIBS = {
    "lib.py": ("import os\n\n\ndef first():\n    return os.sep\n", "\n\ndef {}():\n    return 1\n"),
    "lib.go": ('package p\n\nimport "os"\n\nvar A = os.Args\n', "\nfunc {}() int {{\n\treturn 1\n}}\n"),
}


@pytest.mark.parametrize("lib", LIBS)
async def test_functions_that_shards_add_at_one_place_are_united_and_the_report_says_so(stage, batch_text, lib):
    content, more = LIBS[lib]

    def add(path, files):
        files[lib] += more.format(path[4:6])

    edits(stage.builders, add)
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n", lib: content, "tests/t.py": "assert\n"}

    result, report = await stage.batch(
        await stage.repository(files), text=batch_text.replace("[shards]", SHARED.replace("lib.py", lib))
    )

    [repository] = report.repositories
    assert repository.verified and repository.collisions == ()
    assert [shard.merged_by for shard in repository.shards] == ["as it is", "entities"]
    [overlap] = repository.overlaps
    assert (overlap.keys, overlap.conflicts) == (("src/m0.py", "src/m1.py"), (lib,))
    diff = (await stage.muster.diff(result.task_id)).decode()
    assert all(f"+{more.format(name).strip().splitlines()[0]}" in diff for name in ("m0", "m1"))


@pytest.mark.parametrize("first", ["src/m0.py", "src/m1.py"])
async def test_who_is_named_first_lands_first(stage, batch_text, first):
    edits(stage.builders, lambda path, files: files.update({"NEWS": f"{path}\n"}))
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n", "NEWS": "none\n", "tests/t.py": "assert\n"}
    text = batch_text.replace("[shards]", SHARED) + f'[merge]\nfirst = ["{first}"]\n'

    _, report = await stage.batch(await stage.repository(files), text=text)

    assert [shard.key for shard in report.repositories[0].shards if shard.outcome == "applied"] == [first]


async def test_a_person_goes_on_from_both_sides_with_the_command_of_the_report(stage, batch_text, tmp_path):
    edits(stage.builders, lambda path, files: files.update({"NEWS": f"{path}\n"}))
    files = {"src/m0.py": "old\n", "src/m1.py": "old\n", "NEWS": "none\n", "tests/t.py": "assert\n"}
    text = batch_text.replace("[shards]", SHARED) + '[publish]\nbranch = "muster/news"\n'

    result, report = await stage.batch(await stage.repository(files), text=text)

    [repository] = report.repositories
    [collision], left = repository.collisions, repository.shards[1]
    assert (collision.task_id, collision.with_tasks) == (left.task_id, (repository.shards[0].task_id,))
    command = f"git switch muster/news && muster task diff {left.task_id} | git apply --3way"
    assert f"- src/m1.py with src/m0.py in NEWS: `{command}`" in FORMATS["markdown"](report)
    theirs = await stage.muster.diff(left.task_id)
    assert await stage.muster.attachment(result, left.patch) == theirs
    tree = clone(await stage.muster.attachment(result, repository.bundle), repository.commit, tmp_path)
    applied = subprocess.run(["git", "-C", tree, "apply", "--3way"], input=theirs, capture_output=True)
    assert b"with conflicts" in applied.stderr
    assert "src/m0.py\n=======\nsrc/m1.py\n" in (tree / "NEWS").read_text()
    assert (tree / "src/m1.py").read_text() == "new\n"


def clone(bundle, commit, folder):
    (folder / "merged.bundle").write_bytes(bundle)
    tree = folder / "tree"
    subprocess.run(["git", "init", "-q", tree], check=True)
    subprocess.run(["git", "-C", tree, "fetch", "-q", folder / "merged.bundle", "*:refs/heads/*"], check=True)
    subprocess.run(["git", "-C", tree, "checkout", "-q", commit], check=True)
    return tree


async def test_overlaps_are_foreseen_while_shards_are_still_at_work(stage, batch_text, tmp_path):
    edits(stage.builders, lambda path, files: files.update({"NEWS": f"{path}\n"}))
    gate_open, two_done = asyncio.Event(), asyncio.Event()

    async def hold_the_last(task):
        if task.agent != VERIFY and path_of(task) == "src/m2.py":
            two_done.set()
            await gate_open.wait()

    stage.builders.before_start = hold_the_last
    files = {**{f"src/m{n}.py": "old\n" for n in range(3)}, "NEWS": "none\n", "tests/t.py": "assert\n"}
    request = stage.batch_request(await stage.repository(files), text=batch_text.replace("[shards]", SHARED))
    async with stage.orchestrator(), stage.workers():
        [handle] = await stage.muster.submit_many([request])
        await two_done.wait()
        done = 0
        async for entry in stage.muster.follow(handle.trace_id):
            done += sum(isinstance(event, ChildEnded) for event in getattr(entry.message, "events", ()))
            if done == 3:  # two shards, and the gate on the base
                break
        found = await foreseen(stage.muster, request, tmp_path)
        gate_open.set()
        await stage.muster.gather([handle])

    [overlap] = found["demo"]
    assert (overlap.keys, overlap.conflicts) == (("src/m0.py", "src/m1.py"), ("NEWS",))


async def test_what_all_steps_of_a_shard_change_is_foreseen_and_nothing_but_shards(stage, batch_text, tmp_path):
    """Only the second step edits NEWS; the resolver's patch of it, which ends in the same trace, is no shard's."""

    def edit(task, files):
        if task.input.prompt.startswith("Note"):
            files["NEWS"] = f"{task.input.prompt}\n"
        elif task.input.prompt:
            files["NEWS"] = re.sub(r"(?m)^(<<<<<<<|=======|>>>>>>>).*\n|\|{7}[^=]*", "", files["NEWS"])
        else:
            stage.builders.modernise(task, files)

    stage.builders.edit = edit
    files = {**{f"src/m{n}.py": "old\n" for n in range(2)}, "NEWS": "none\n", "tests/t.py": "assert\n"}
    second = '[[steps]]\nagent = "build"\nprompt = "Note {path}"\n[gate]'
    text = batch_text.replace("[shards]", SHARED).replace("[gate]", second) + '[merge]\nresolve = "agent"\n'
    request = stage.batch_request(await stage.repository(files), text=text)

    result = await stage.run(request)
    found = await foreseen(stage.muster, request, tmp_path)

    [repository] = BatchReport.model_validate(result.output.structured).repositories
    assert [shard.merged_by for shard in repository.shards] == ["as it is", "resolved"]
    [overlap] = found["demo"]
    assert (overlap.keys, overlap.conflicts) == (("src/m0.py", "src/m1.py"), ("NEWS",))


async def other_base(stage, keys):
    """Shards' patches against a commit that is not the batch's, as a worker that does not check might send them."""
    given = await stage.repository({"src/a.py": "old\n"})
    request, blobs = stage.batch_request(given), stage.transport.blobs
    file = FileStat(path="src/a.py", status="M")
    patch = PatchRef(base="f" * 40, diff=await blobs.put(b"what it changed"), files=(file,), tree="")
    result = TaskResult(
        trace_id=request.trace_id, task_id=request.task_id, attempt=1, status=State.COMPLETED, patch=patch
    )
    endings = {key: Ended(Work(key, request, key), result, reused=False, cost_microusd=0) for key in keys}
    mirror = await fetch_mirror(blobs, stage.folder / "mirrors", bundle_ref=given.bundle, base=given.base)
    return await material_of(mirror, blobs, given.base, endings, batch="b", rules=MergeRules())


async def test_a_patch_against_another_base_is_kept_and_breaks_no_rule(memory_stage):
    material = await other_base(memory_stage, ["src/a.py"])

    outcome = material.outcome("demo", await material.merge(), {}, {})

    [shard] = outcome.shards
    assert (shard.outcome, shard.code) == ("set_aside", ErrorCode.REPOSITORY)
    assert "the patch is against ffffffffffff, not against" in shard.detail
    assert [kept.name for kept in outcome.kept] == [shard.patch]


async def test_every_patch_in_collision_is_kept_however_many_are_listed(memory_stage):
    keys = [f"k{n:03}" for n in range(MAX_LISTED + 1)]
    material = replace(await other_base(memory_stage, keys), objections={})
    collisions = tuple(Collision(key, (), ("src/a.py",), "CONFLICT") for key in keys)

    outcome = material.outcome("demo", Merged(material.base, (), collisions), {}, {})

    assert {kept.name for kept in outcome.kept} == {shard.patch for shard in outcome.shards}
    assert len(outcome.kept) == len(keys)


def test_the_rules_of_the_page_are_rules(batch_text):
    page = (Path(__file__).parents[3] / "docs/batches/merge.md").read_text()
    [block] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    rules = parse_batch(batch_text + block, name="batch.toml").merge

    assert rules.first == ("src/core/**",)
    assert rules.model_dump(exclude={"first"}) == MergeRules().model_dump(exclude={"first"})  # what else it says is so


@pytest.mark.parametrize("resolve", ["person", "agent"])
async def test_an_edit_follows_no_rename_into_the_folder_of_another_shard(stage, batch_text, resolve):
    lines = "".join(f"{n}\n" for n in range(40))
    files = {"packages/a/a": "1\n", "packages/b/b": "1\n", "packages/c/c": "1\n", "shared/x": lines}

    def edit(task, files):
        if "packages/a" in path_of(task):
            files["packages/a/x"] = files.pop("shared/x")
        elif "packages/b" in path_of(task):
            files["shared/x"] = files["shared/x"].replace("20\n", "written by b\n")
        else:
            files["packages/c/c"] = "2\n"

    stage.builders.edit = edit
    text = batch_text.replace('glob = "src/*.py"', 'directories = "packages/*"\nalso_edit = ["shared/**"]')
    text = text.replace('[gate]\ncommands = ["run-tests"]\n', "") + f'[merge]\nresolve = "{resolve}"\n'

    result, report = await stage.batch(await stage.repository(files), text=text)

    [repository] = report.repositories
    assert [(shard.key, shard.outcome) for shard in repository.shards] == [
        ("packages/a/", "applied"),
        ("packages/b/", "collision"),
        ("packages/c/", "applied"),
    ]
    [collision] = repository.collisions
    assert (collision.with_keys, collision.paths) == (("packages/a/",), ("packages/a/x", "shared/x"))
    assert collision.detail == "CONFLICT (scope): shared/x has become packages/a/x, which this patch may not change"
    assert [error.code for error in result.errors] == [ErrorCode.COLLISION]
    assert b"written by b" not in await stage.muster.diff(result.task_id)
    assert all(task.agent != VERIFY and not task.input.prompt for task in stage.builders.started)
