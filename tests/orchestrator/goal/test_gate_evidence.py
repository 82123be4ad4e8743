"""What a gate concludes from its runs: flaky tests, tests that failed before, edited tests, what was restored.

The scripted runner: a line `t NAME` of a file below tests/ is a test, which fails if a line of src/ is `breaks NAME`.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envelope.agents import AgentCard
from envelope.errors import ErrorCode
from envelope.gate import GateEvidence, GateRules
from envelope.messages import Output, TaskRequest, TaskResult, Workspace
from orchestrator.batch.report import BatchReport
from orchestrator.submit import goal_request

FILES = {"src/a": "code\n", "tests/t": "t one\nt two\nt three\n"}
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("edit:**", "bash:**"))


def lines_of(files: dict[str, str], folder: str) -> list[str]:
    return [line for path, text in sorted(files.items()) if path.startswith(folder) for line in text.splitlines()]


@dataclass
class Runner:
    """Plays the gate's sandbox. `unlucky`: in which runs a test fails all the same; the first is the base's.

    With a clock moved forward a line `breaks NAME later` counts, too.
    """

    stage: Any
    unlucky: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    coverage: dict[str, float] = field(default_factory=dict[str, float])  # by a word in the code
    has_clock: bool = True
    asked: list[TaskRequest] = field(default_factory=list[TaskRequest])

    async def verify(self, task: TaskRequest) -> dict[str, Any]:
        self.asked.append(task)
        mirror, where = await self.stage.builders._workspace(task)
        tree = await self.stage.builders._tree(mirror, where)
        with tempfile.TemporaryDirectory() as copy:
            unpack, read_files = self.stage.unpack, self.stage.read_files
            unpack(mirror, tree, Path(copy))
            files = read_files(Path(copy))
        return {"output": Output(structured={"steps": [self._step(task, files)], "tree": tree})}

    def _step(self, task: TaskRequest, files: dict[str, str]) -> dict[str, Any]:
        code = lines_of(files, "src/")
        names = [line.removeprefix("t ") for line in lines_of(files, "tests/") if line.startswith("t ")]
        unlucky = {name for name in names if len(self.asked) in self.unlucky.get(name, ())}
        clock = task.input.params.get("clock", "")
        failed = {name for name in names if f"breaks {name}" in code} | unlucky
        failed -= {line.removeprefix("mends ") for line in lines_of(files, "ci/")}
        failed |= {name for name in names if clock and f"breaks {name} later" in code}
        passed = [name for name in names if name not in failed]
        return {
            "command": task.input.params["commands"][0],
            "exit_code": 1 if failed else 0,
            "tests": {"passed": len(passed), "failed": len(failed), "total": len(names)},
            "counted_by": "junit",
            "names": {"passed": passed, "failed": sorted(failed), "complete": True},
            "clock": ("moved" if self.has_clock else "missing") if clock else "",
            "coverage_percent": next((value for word, value in self.coverage.items() if word in code), None),
        }


@pytest.fixture
def runner(stage, monkeypatch) -> Runner:
    kit = sys.modules[type(stage).__module__]
    stage.unpack, stage.read_files = kit.unpack, kit.read_files
    runner = Runner(stage)
    monkeypatch.setattr(stage.builders, "_verify", runner.verify)
    return runner


@pytest.fixture
def goal(stage, runner):
    async def run(
        edits: dict[str, str], *, rules: GateRules = GateRules(), files: dict[str, str] = FILES,
        scope: tuple[str, ...] = BUILD.auth_scope, setup: tuple[str, ...] = (),
    ) -> tuple[TaskResult, GateEvidence]:  # fmt: skip
        stage.builders.edit = lambda _task, found: found.update(edits)
        given = await stage.repository(files)
        request = goal_request(
            "Make it new", agent=BUILD, settings=stage.muster.settings, auth_scope=scope,
            workspace=Workspace(bundle=given.bundle, base=given.base, setup=setup), gate=("run-tests",),
            gate_rules=rules,
        )  # fmt: skip
        result = await stage.run(request)
        return result, GateEvidence.model_validate(result.output.structured["evidence"])

    return run


def codes(evidence: GateEvidence) -> list[str]:
    return [objection.code for objection in evidence.objections]


async def test_an_honest_change_is_verified_with_its_runs_as_evidence(goal):
    result, evidence = await goal({"src/a": "better\n"})

    assert (result.errors, evidence.result, evidence.objections) == ((), "verified", ())
    assert [(run.phase, run.passed, run.tests) for run in evidence.runs] == [("before", True, 3), ("after", True, 3)]


async def test_a_new_failure_is_named_and_looked_at_again(goal):
    result, evidence = await goal({"src/a": "breaks two\n"}, rules=GateRules(reruns=2))

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "exit code 1 (two)" in result.errors[0].message
    assert (evidence.result, codes(evidence), evidence.new_failures) == ("rejected", ["failed"], ("two",))
    assert [run.about for run in evidence.runs] == ["", "", "again (1)", "again (2)"]


@pytest.mark.parametrize(("policy", "result", "found"), [("allow", "verified", []), ("reject", "rejected", ["flaky"])])
async def test_a_test_that_passes_when_it_is_run_again_is_flaky(goal, runner, policy, result, found):
    runner.unlucky["two"] = {2}

    _, evidence = await goal({"src/a": "better\n"}, rules=GateRules(flaky=policy))

    assert (evidence.result, codes(evidence), evidence.flaky) == (result, found, ("two",))
    assert [(run.phase, run.passed, run.about) for run in evidence.runs][1:] == [
        ("after", False, ""),
        ("after", True, "again (1)"),
    ]


async def test_a_test_that_fails_by_bad_luck_on_the_base_and_after_it_is_flaky_on_both(goal, runner):
    runner.unlucky["two"] = {1, 2}

    _, evidence = await goal({"src/a": "better\n"})

    assert (evidence.result, evidence.flaky) == ("verified", ("two",))
    assert "flaky on the base: two" in evidence.notes


async def test_the_base_is_run_again_before_its_failure_excuses_one(goal, runner):
    """The base fails by bad luck, once; the change really breaks the test."""
    runner.unlucky["two"] = {1}

    _, evidence = await goal({"src/a": "breaks two\n"})

    assert (evidence.result, codes(evidence)) == ("rejected", ["failed"])
    assert evidence.notes == ("flaky on the base: two",)


async def test_what_failed_on_the_base_is_not_blamed(goal):
    result, evidence = await goal({"src/b": "better\n"}, files={**FILES, "src/a": "breaks one\n"})

    assert (evidence.result, evidence.known_failures, evidence.new_failures) == ("verified", ("one",), ())
    assert result.output.structured["reason"] == "the same test fails on the base"
    assert "fails as on the base: one" in evidence.notes


async def test_a_person_may_want_all_tests_to_pass(goal):
    rules = GateRules(known_failures="reject")
    _, evidence = await goal({"src/b": "better\n"}, files={**FILES, "src/a": "breaks one\n"}, rules=rules)

    assert (evidence.result, codes(evidence)) == ("rejected", ["failed"])


async def test_a_new_failure_beside_a_known_one_is_the_one_that_is_blamed(goal):
    _, evidence = await goal({"src/b": "breaks two\n"}, files={**FILES, "src/a": "breaks one\n"})

    assert (evidence.result, evidence.new_failures, evidence.known_failures) == ("rejected", ("two",), ("one",))
    assert "now in more: two" in evidence.objections[0].message


@pytest.mark.parametrize(
    ("tests", "found"),
    [("t two\nt three\n", ["fewer_tests"]), ("t two\nt three\nt four\n", ["removed_tests"])],
    ids=["deleted", "swapped"],
)
async def test_a_test_that_is_gone_is_missed(goal, tests, found):
    _, evidence = await goal({"src/a": "breaks one\n", "tests/t": tests})

    assert (codes(evidence), evidence.objections[0].names) == (found, ("one",))


async def test_an_edited_test_that_still_passes_as_it_was_is_shown(goal):
    _, evidence = await goal({"src/a": "better\n", "tests/t": FILES["tests/t"] + "t four\n"})

    assert (evidence.result, [file.path for file in evidence.test_files]) == ("verified", ["tests/t"])
    assert "the change edits 1 test file, +1 −0: M tests/t" in evidence.notes
    assert evidence.runs[-1].about == "with the tests of the base" and evidence.runs[-1].tests == 3


async def test_a_change_must_pass_with_the_bases_settings_too(goal):
    """Nobody knows of every file what may obey it: here it is the runner, and the gate's own look has no idea of it."""
    files = {**FILES, "ci/words.txt": "nothing\n"}
    lie = {"src/a": "breaks one\n", "ci/words.txt": "mends one\n"}

    _, evidence = await goal(lie, files=files)
    _, allowed = await goal(lie, files=files, rules=GateRules(may_edit=("ci/words.txt",)))
    _, harmless = await goal({"src/a": "better\n", "ci/words.txt": "others\n"}, files=files)

    assert codes(evidence) == ["gate_edited"]
    assert evidence.objections[0].names == ("ci/words.txt",)
    assert 'may_edit=["ci/words.txt"]' in evidence.objections[0].hint
    assert allowed.result == harmless.result == "verified"
    assert harmless.runs[-1].about == "with other files of the base"


async def test_a_failing_test_that_is_only_edited_away_was_not_mended(goal, runner):
    """Nothing but tests is edited, so that the base is what its tests say of it."""
    result, evidence = await goal(
        {"tests/t": "t two\nt three\nt one_ok\n"}, files={**FILES, "src/a": "breaks one\n"}
    )  # fmt: skip

    assert (evidence.result, codes(evidence)) == ("rejected", ["tests_edited"])
    assert "--allow 'edit:tests/t'" in result.errors[0].hint
    assert evidence.objections[0].names == ("one",)


async def test_a_grant_that_names_tests_lets_them_be_edited(goal):
    scope = (*BUILD.auth_scope, "edit:tests/**")
    _, evidence = await goal(
        {"tests/t": "t two\nt three\nt one_ok\n"}, files={**FILES, "src/a": "breaks one\n"}, scope=scope
    )  # fmt: skip

    assert (evidence.result, len(evidence.test_files)) == ("verified", 1)


async def test_what_is_outside_of_the_edit_scope_is_restored_and_named(goal, stage):
    stage.builders.honest = False  # a worker has let it pass
    result, evidence = await goal({"src/a": "better\n", "tests/t": "t one\n"}, scope=("edit:src/**", "bash:**"))

    assert (evidence.result, evidence.restored) == ("verified", ("tests/t",))
    assert "restored from the base, since outside of the edit scope: tests/t" in evidence.notes
    assert [file.path for file in result.patch.files] == ["src/a"]
    assert (result.patch.added, result.patch.removed) == (1, 1)
    assert b"tests/t" not in await stage.transport.blobs.get(result.patch.diff)


@pytest.mark.parametrize(
    ("least", "coverage", "found"),
    [
        (80, {"better": 85.0}, []),
        (80, {"better": 75.0}, ["coverage"]),
        ("base", {"code": 85.0, "better": 85.0}, []),
        ("base", {"code": 85.0, "better": 84.9}, ["coverage"]),
        (80, {}, ["coverage"]),
    ],
)
async def test_coverage_counts_where_it_is_asked_for(goal, runner, least, coverage, found):
    runner.coverage = coverage

    _, evidence = await goal({"src/a": "better\n"}, rules=GateRules(min_coverage=least))

    assert codes(evidence) == found


async def test_rules_reach_the_worker_as_far_as_it_needs_them(goal, runner):
    await goal({"src/a": "better\n"}, rules=GateRules(junit="out/*.xml", flaky="reject"))

    assert [task.input.params["junit"] for task in runner.asked] == ["out/*.xml"] * 2
    assert all(set(task.input.params) == {"commands", "junit"} for task in runner.asked)


@pytest.mark.parametrize(("bad_run", "found"), [(None, []), (2, ["failed"]), (4, ["failed"])])
async def test_a_verdict_may_need_several_green_runs(goal, runner, bad_run, found):
    if bad_run:
        runner.unlucky["two"] = {bad_run}

    _, evidence = await goal({"src/a": "better\n"}, rules=GateRules(repeat=3))

    assert (codes(evidence), evidence.flaky) == (found, ())
    assert len(evidence.runs) == (bad_run or 4)  # a failure is the last of them
    assert ("3 of 3 runs pass" in evidence.notes) is (not found)


async def test_a_later_run_that_fails_says_which_it_was(goal, runner):
    runner.unlucky["two"] = {3}

    result, evidence = await goal({"src/a": "better\n"}, rules=GateRules(repeat=2))

    assert result.errors[0].message.startswith("run 2 of 2: the gate fails")
    assert evidence.runs[-1].about == "run 2 of 2"


@pytest.mark.parametrize(
    ("setup", "rule", "asked", "note"),
    [
        ((), "again", {"clock"}, ""),
        (("make",), "again", {"clock", "repeats_setup"}, ""),
        (("make",), "once", {"clock"}, "what setup made is made of the base"),
    ],
)
async def test_setup_is_done_again_in_every_run_unless_a_rule_says_otherwise(goal, runner, setup, rule, asked, note):
    rules = GateRules(setup=rule, repeat=2, clock="+90d")

    _, evidence = await goal({"src/a": "better\n", "tests/t": FILES["tests/t"] + "\n"}, rules=rules, setup=setup)

    assert evidence.result == "verified"
    assert len(runner.asked) == 6  # before, after, with the old tests, repeated, and both by another clock
    assert all(set(task.input.params) - {"commands"} | {"clock"} == asked for task in runner.asked)
    assert [told.partition(":")[0] for told in evidence.notes if "setup" in told] == ([note] if note else [])


@pytest.mark.parametrize("rules", [GateRules(repeat=2), GateRules(clock="+90d")], ids=["repeat", "clock"])
async def test_what_a_grant_lets_go_is_not_missed_in_further_runs(goal, rules):
    result, evidence = await goal({"tests/t": "t one\nt two\n"}, rules=rules, scope=("edit:tests/**", "bash:**"))

    assert (result.errors, codes(evidence), evidence.result) == ((), [], "verified")


@pytest.mark.parametrize(
    ("base", "change", "found"),
    [
        ({}, "better\n", []),
        ({}, "breaks two later\n", ["failed"]),
        ({"src/b": "breaks two later\n"}, "better\n", []),
        ({"src/b": "breaks two later\n"}, "breaks one later\n", ["failed"]),
    ],
)
async def test_code_that_goes_wrong_later_is_found_by_a_clock(goal, runner, base, change, found):
    _, evidence = await goal({"src/a": change}, files={**FILES, **base}, rules=GateRules(clock="+90d"))

    assert codes(evidence) == found
    assert [run.about for run in evidence.runs] == ["", "", "with the clock at +90d", "with the clock at +90d"]
    assert [task.input.params.get("clock") for task in runner.asked] == [None, None, "+90d", "+90d"]
    assert ("with the clock at +90d the gate passes as well" in evidence.notes) is (not found)


async def test_an_image_whose_clock_cannot_be_moved_is_never_passed_over(goal, runner):
    runner.has_clock = False

    result, evidence = await goal({"src/a": "better\n"}, rules=GateRules(clock="+90d"))

    assert codes(evidence) == ["failed"] and "no libfaketime" in result.errors[0].message
    assert "faketime" in result.errors[0].hint


async def test_a_batch_has_the_same_gate(stage, runner, batch_text):
    files = {"src/a.py": "old\n", "tests/t": "t one\n", "check": "true\n"}
    stage.builders.edit = lambda _task, found: found.update({"src/a.py": "breaks one\n"})
    text = batch_text.replace("[gate]", '[merge]\ngate = "end"\n\n[gate]\nreruns = 1\nmay_edit = ["check"]')

    result, report = await stage.batch(await stage.repository(files), text=text)

    evidence = BatchReport.model_validate(result.output.structured).repositories[0].evidence
    assert (evidence.result, evidence.new_failures) == ("rejected", ("one",))
    assert [run.about for run in evidence.runs] == ["", "", "again (1)"]
    assert not report.verified
