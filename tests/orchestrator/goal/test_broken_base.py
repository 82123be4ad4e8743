"""A gate that did not run proves nothing, on the base as little as after a change."""

from __future__ import annotations

from typing import Any

import pytest

from envelope.agents import AgentCard
from envelope.errors import ErrorCode
from envelope.gate import GateEvidence, GateRules
from envelope.lifecycle import State
from envelope.messages import TaskResult, Workspace
from envelope.recipe import RecipeStep, TestCounts, TestNames
from orchestrator.gating.obstacle import obstacle_in
from orchestrator.gating.run import Run
from orchestrator.judgement import objections
from orchestrator.submit import VERIFY, goal_request

TREE = "a" * 40
PYTEST = "python3 -m pytest -q"
COLLECTION = """
_____ ERROR collecting tests/test_core.py _____
ImportError while importing test module '/workspace/tests/test_core.py'.
E   ModuleNotFoundError: No module named 'six'
ERROR tests/test_core.py
!!!!! Interrupted: 1 error during collection !!!!!
1 error in 0.08s
"""


def step(
    passed: int = 4,
    failed: tuple[str, ...] = (),
    errors: int = 0,
    *,
    exit_code: int | None = None,
    said: str = "",
    command: str = PYTEST,
    counted_by: str = "junit",
    timed_out: bool = False,
) -> RecipeStep:
    counts = TestCounts(passed=passed, failed=len(failed), errors=errors, total=passed + len(failed) + errors)
    names = TestNames(
        passed=tuple(f"p{number}" for number in range(passed)),
        failed=(*failed, *(f"e{number}" for number in range(errors))),
        complete=True,
    )
    return RecipeStep(
        command=command, exit_code=exit_code, timed_out=timed_out, output_tail=said, tests=counts, names=names,
        counted_by=counted_by,
    )  # fmt: skip


def uncounted(exit_code: int | None, said: str = "", command: str = PYTEST, **more: Any) -> RecipeStep:
    return RecipeStep(command=command, exit_code=exit_code, output_tail=said, **more)


OBSTACLES = [
    (step(0, (), 1, exit_code=2, said=COLLECTION), "No module named 'six'", "install 'six'"),
    (
        step(4, (), 1, exit_code=1, said="ERROR tests/t.py::test_a - fixture 'db' not found"),
        "1 error outside",
        "look at",
    ),
    (
        step(4, ("a",), 0, exit_code=2, said="! KeyboardInterrupt !"),
        "pytest did not run its tests, exit code 2",
        "mend",
    ),
    (step(0, (), 1, exit_code=3, said="INTERNALERROR> boom"), "exit code 3", "mend"),
    (uncounted(4, "ERROR: file or directory not found: nope\n"), "file or directory not found: nope", "folder"),
    (step(0, exit_code=5, said="no tests ran in 0.01s"), "exit code 5: no tests ran", "mend that first"),
    (uncounted(1, "/usr/bin/python3: No module named pytest\n"), "No module named pytest", "install 'pytest'"),
    (uncounted(127, "bash: pytset: command not found\n"), "pytset: command not found", "MUSTER_IMAGE"),
    (uncounted(None), "was killed", "mend"),
    (step(4, exit_code=137), "could not be run to its end, exit code 137", "mend"),
    (step(4, ("a",), exit_code=139), "exit code 139", "mend"),
    (step(4, ("a",), timed_out=True), "timed out", "in a batch file, [gate] timeout_s"),
    (step(0, exit_code=0, command="npm test"), "ran no test", "in a batch file, [gate] min_tests = 0"),
    (uncounted(2, "make: *** No rule to make target 'tset'.  Stop.", "make tset"), "exit code 2", "mend"),
]


@pytest.mark.parametrize(("seen", "said", "hint"), OBSTACLES)
def test_what_kept_a_gate_from_running_is_told_in_the_runners_words(seen, said, hint):
    obstacle = obstacle_in([seen], 1)

    assert obstacle is not None
    assert said in obstacle.message
    assert hint in obstacle.hint


@pytest.mark.parametrize(
    "steps",
    [
        [step(4, exit_code=0)],
        [step(4, ("a",), exit_code=1)],
        [step(4, ("a",), exit_code=2, command="make test")],  # which ends with 2 whatever its commands end with
        [step(4, exit_code=2, command=f"{PYTEST} && mypy .")],
        [uncounted(1, "Found 3 errors.", "ruff check ."), step(4, exit_code=0)],
        [step(4, ("a", "b"), exit_code=2, command="npx mocha", counted_by="mocha")],
        [step(4, ("a",), exit_code=101, command="cargo test", counted_by="cargo")],
    ],
)
def test_tests_that_fail_and_checkers_that_find_something_keep_no_gate_from_running(steps):
    assert obstacle_in(steps, 1) is None


@pytest.mark.parametrize(("seen", "_said", "_hint"), OBSTACLES)
def test_the_same_trouble_before_and_after_excuses_nothing(seen, _said, _hint):
    """The gravest hole there was: garbage in a product whose tests could not be collected was called verified."""
    run = Run(steps=(seen,), tree=TREE)

    assert objections(run, run, tree=TREE, min_tests=1) != []
    assert objections(run, run, tree=TREE, min_tests=1, rules=GateRules(known_failures="reject")) != []
    assert objections(Run(steps=(step(4, ("e0",), exit_code=1),), tree=TREE), run, tree=TREE, min_tests=1) != []


def test_only_a_test_whose_own_body_failed_on_the_base_is_excused():
    def run(*failed: str, errors: int = 0, exit_code: int = 1) -> Run:
        return Run(steps=(step(6 - len(failed), failed, errors, exit_code=exit_code),), tree=TREE)

    assert objections(run("a"), run("a"), tree=TREE, min_tests=1) == []
    assert objections(run("a", "b"), run("a"), tree=TREE, min_tests=1) == []
    assert [each.code for each in objections(run("a"), run("b"), tree=TREE, min_tests=1)] == ["failed"]
    assert [each.code for each in objections(run("a"), run(errors=1), tree=TREE, min_tests=1)] == ["failed"]
    assert [each.code for each in objections(run("e0"), run(errors=1), tree=TREE, min_tests=1)] == ["failed"]


def test_a_command_that_passes_now_does_not_spoil_that_another_fails_as_before():
    lint, tests = uncounted(1, "Found 3 errors.", "ruff check ."), step(4, ("a",), exit_code=1)
    mended = uncounted(0, "All checks passed!", "ruff check .")

    assert objections(Run(steps=(lint, tests)), Run(steps=(mended, tests)), tree="", min_tests=1) == []
    assert objections(Run(steps=(mended, tests)), Run(steps=(lint, tests)), tree="", min_tests=1) != []


# -- goals

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
NO_SIX = "ModuleNotFoundError: No module named 'six'"


@pytest.fixture
def goal(stage):
    """A project whose tests need a module that is not there; `mended`: unless a file says that it is."""

    async def verify(task: Any) -> dict[str, Any]:
        fields = await real(task)
        if not stage.mended(fields):
            broken = step(0, (), 1, exit_code=2, said=f"E   {NO_SIX}\n")
            fields["output"].structured["steps"] = [broken.model_dump(mode="json")]
        return fields

    async def run(**rules: Any) -> TaskResult:
        given = await stage.repository({"a.py": "old\n", "t.py": "assert\nassert\n"})
        workspace = Workspace(bundle=given.bundle, base=given.base)
        request = goal_request(
            "Write garbage", agent=BUILD, settings=stage.muster.settings, workspace=workspace, gate=(PYTEST,),
            gate_rules=GateRules(**rules),
        )  # fmt: skip
        return await stage.run(request)

    real = stage.builders._verify
    stage.builders._verify = verify
    stage.builders.edit = lambda _task, files: files.update({"a.py": "garbage\n"})
    stage.mended = lambda _fields: False
    return run


async def test_a_base_on_which_the_gate_cannot_run_ends_the_goal_before_anybody_is_paid(stage, goal):
    result = await goal()

    assert [task.agent for task in stage.builders.started] == [VERIFY, VERIFY]  # the second, for bad luck
    [error] = result.errors
    assert error.code is ErrorCode.BROKEN_BASE
    assert NO_SIX in error.message
    assert "install 'six'" in error.hint
    told = result.output.structured
    assert (told["verified"], told["evidence"]["result"]) == (False, "rejected")
    assert [one["code"] for one in told["evidence"]["objections"]] == ["broken_base"]


async def test_a_second_look_that_runs_lets_the_goal_begin(stage, goal):
    looks: list[int] = []
    stage.mended = lambda _fields: bool(looks.append(1)) or len(looks) > 1

    result = await goal()

    assert (result.status, result.output.structured["verified"]) == (State.COMPLETED, True)


@pytest.mark.parametrize("is_mended", [False, True], ids=["still broken", "mended by the change"])
async def test_a_person_may_let_it_go_on_and_then_nothing_is_called_verified(stage, goal, is_mended):
    looks: list[int] = []
    stage.mended = lambda _fields: bool(looks.append(1)) or (is_mended and len(looks) > 1)

    result = await goal(broken_base="allow")

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert result.output.structured["verified"] is False
    assert NO_SIX in result.output.structured["reason"]
    evidence = GateEvidence.model_validate(result.output.structured["evidence"])
    assert (evidence.result, evidence.known_failures) == ("done", ())  # what did not run excuses nothing
    assert not any("fails as on the base" in note for note in evidence.notes)


async def test_what_fails_where_the_gate_runs_again_is_rejected_all_the_same(stage, goal):
    looks: list[int] = []
    stage.mended = lambda _fields: bool(looks.append(1)) or len(looks) > 1
    stage.builders.edit = lambda _task, files: files.update({"a.py": "fail\n"})

    result = await goal(broken_base="allow")

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
