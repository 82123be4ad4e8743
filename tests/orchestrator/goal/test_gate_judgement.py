"""When a change counts as verified: a table."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.recipe import RecipeStep, TestCounts
from orchestrator.errors import TaskFailed
from orchestrator.judgement import Run, judge, read_run

TREE = "a" * 40


def run(passed: int | None = 5, failed: int = 0, *, skipped: int = 0, exit_code: int | None = None, tree: str = TREE):
    tests = None if passed is None else TestCounts(passed=passed, failed=failed, skipped=skipped)
    code = (1 if failed else 0) if exit_code is None else exit_code
    return Run(steps=(RecipeStep(command="run-tests", exit_code=code, output_tail="said so", tests=tests),), tree=tree)


@pytest.mark.parametrize(
    ("before", "after", "min_tests", "reason"),
    [
        (run(5), run(5), 1, ""),
        (run(5), run(6), 1, ""),
        (run(5), run(4), 1, "fewer than the 5 before"),
        (run(5), run(4, skipped=1), 1, "fewer than the 5 before"),
        (run(5), run(4, 1), 1, "the gate fails: `run-tests`: exit code 1"),
        (run(5), run(4, 1, exit_code=0), 1, "the gate fails"),
        (run(0), run(0), 1, "the gate cannot run on the base: the commands ran no test"),
        (run(None), run(None), 1, "the commands ran no test that could be counted"),
        (run(0), run(3), 1, "the gate cannot run on the base"),
        (run(5), run(5), 6, "the gate ran 5 tests, 5 passed, at least 6 have to pass"),
        (run(4, 1), run(4, 1), 5, "not verified"),
        (run(None), run(None), 0, ""),
        (run(5), run(None), 0, "fewer than the 5 before"),
        (run(4, 1), run(5), 1, ""),
        (
            run(4, 1),
            run(4, 1),
            1,
            "fails on the base already and no worse now (1 failed before, 1 after): not verified",
        ),
        (run(4, 1), run(3, 2), 1, "and now it fails more (1 failed before, 2 after)"),
        (run(4, 1), run(3, 1), 1, "and now it fails more"),
        (run(None, exit_code=2), run(None, exit_code=2), 0, "fails on the base already: `run-tests`: exit code 2"),
        (run(None, exit_code=1), run(3), 1, "the gate cannot run on the base"),
        (run(5), run(5, tree="b" * 40), 1, "the gate tested the tree bbbbbbbbbbbb, not aaaaaaaaaaaa"),
        (run(5), run(5, tree=""), 1, "the gate tested the tree none"),
        (run(5), Run(steps=(), tree=TREE), 1, "the gate fails"),
    ],
)
def test_a_change_is_verified_or_the_first_objection_is_told(before, after, min_tests, reason):
    judgement = judge(before, after, tree=TREE, min_tests=min_tests)

    assert judgement.verified is (reason == "")
    assert reason in judgement.reason


def test_the_verdict_shows_the_command_that_failed_and_what_it_said():
    verdict = run(3, 2, skipped=1).verdict("after")

    assert (verdict.passed, verdict.tests, verdict.failed, verdict.skipped) == (False, 5, 2, 1)
    assert verdict.detail == "`run-tests`: exit code 1\nsaid so"


def answer(structured: object = None, *errors: ErrorInfo) -> TaskResult:
    status = State.ERROR if errors else State.COMPLETED
    ids = {"trace_id": new_trace_id(), "task_id": new_task_id(), "attempt": 1}
    return TaskResult(**ids, status=status, output=Output(structured=structured), errors=errors)


def test_a_gate_that_could_not_run_is_an_error_and_not_a_verdict():
    with pytest.raises(TaskFailed) as caught:
        read_run(answer(None, ErrorInfo.of(ErrorCode.SETUP_FAILED, "pip said no")))

    assert caught.value.error.code is ErrorCode.SETUP_FAILED


def test_failing_commands_are_a_verdict_even_when_their_task_ended_in_error():
    steps = [{"command": "x", "exit_code": 1, "timed_out": False, "tests": None}]

    assert not read_run(answer({"steps": steps}, ErrorInfo.of(ErrorCode.RECIPE_FAILED, "x ended with 1"))).passed


def test_a_gate_without_an_account_is_a_fault_of_ours():
    with pytest.raises(TaskFailed, match="no account of its steps"):
        read_run(answer(None))
