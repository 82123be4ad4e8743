"""When a change counts as verified: a table."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.gate import GateRules
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.recipe import RecipeStep, TestCounts, TestNames
from orchestrator.errors import TaskFailed
from orchestrator.gating.run import Run
from orchestrator.judgement import judge, objections, read_run, with_old_tests

TREE = "a" * 40


def run(passed: int | None = 5, failed: int = 0, *, skipped: int = 0, exit_code: int | None = None, tree: str = TREE):
    tests = None if passed is None else TestCounts(passed=passed, failed=failed, skipped=skipped)
    code = (1 if failed else 0) if exit_code is None else exit_code
    return Run(steps=(RecipeStep(command="run-tests", exit_code=code, output_tail="said so", tests=tests),), tree=tree)


def run_without_setup():
    return Run(steps=(), tree=TREE, setup_failure="`make` ended with 2")


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
        (run(5), run_without_setup(), 1, "setup fails with the change: `make` ended with 2"),
        (run(4, 1), run_without_setup(), 1, "setup fails with the change: `make` ended with 2"),
        (run_without_setup(), run(5), 1, "the gate cannot run on the base: setup cannot be done again"),
    ],
)
def test_a_change_is_verified_or_the_first_objection_is_told(before, after, min_tests, reason):
    judgement = judge(before, after, tree=TREE, min_tests=min_tests)

    assert judgement.verified is (reason == "")
    assert reason in judgement.reason


def named(*commands: dict[str, str]) -> Run:
    """Each command's tests: how they ended, by name; of several with one name a letter each."""
    steps: list[RecipeStep] = []
    for told in commands:
        cases = [(name, letter) for name, letters in told.items() for letter in letters]
        passed, failed, skipped = (tuple(name for name, end in cases if end == letter) for letter in "pfs")
        counts = TestCounts(passed=len(passed), failed=len(failed), skipped=len(skipped), total=len(cases))
        names = TestNames(passed=passed, failed=failed, skipped=skipped, complete=True)
        code = 1 if failed else 0
        steps.append(RecipeStep(command=f"run-{len(steps)}", exit_code=code, tests=counts, names=names))
    return Run(steps=tuple(steps), tree=TREE)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # a failure is known in its own command, and as often as it was there
        ([{"t": "fp"}], [{"t": "fp"}], []),
        ([{"t": "fp"}], [{"t": "ff"}], [("failed", ("t",))]),
        ([{"t": "ff"}], [{"t": "fp"}], []),
        ([{"t": "f"}, {"t": "p", "u": "f"}], [{"t": "f"}, {"t": "p", "u": "f"}], []),
        ([{"t": "f"}, {"t": "p", "u": "f"}], [{"t": "f"}, {"t": "f", "u": "p"}], [("failed", ("t",))]),
        # nor does a test of another command, or a further one, stand for one that is gone
        ([{"t": "pp"}], [{"t": "p", "u": "p"}], [("removed_tests", ("t",))]),
        ([{"t": "pp"}], [{"t": "p", "u": "pp"}], [("removed_tests", ("t",))]),
        ([{"t": "p"}, {"t": "p"}], [{"t": "p", "u": "p"}, {}], [("removed_tests", ("t",))]),
        ([{"t[1]": "p", "t[2]": "p"}], [{"t[3]": "p", "t[4]": "p"}], []),
        ([{"t[1]": "pp"}], [{"t[1]": "p", "t[2]": "p"}], [("removed_tests", ("t",))]),
        ([{"t": "pp"}], [{"t": "ppp"}], []),
        # or for one that is skipped
        ([{"t": "ps"}], [{"t": "ss", "u": "p"}], [("new_skips", ("t",))]),
        ([{"t": "ps"}], [{"t": "pss"}], []),
        ([{"t": "p"}, {"t": "s"}], [{"t": "s", "u": "p"}, {"t": "s"}], [("new_skips", ("t",))]),
        ([{"t": "p"}], [{"t": "p", "u": "s"}], []),
    ],
)
def test_tests_of_one_name_are_counted(before, after, found):
    seen = objections(named(*before), named(*after), tree=TREE, min_tests=1)

    assert [(one.code, one.names) for one in seen] == found


def told(tests: tuple[int, int, int], **beside: tuple[int, int, int]) -> RecipeStep:
    """Numbers of tests that passed, failed and were skipped."""
    counts = {who: TestCounts(passed=p, failed=f, skipped=s) for who, (p, f, s) in {"": tests, **beside}.items()}
    return RecipeStep(command="make", exit_code=int(tests[1] > 0), tests=counts.pop(""), counted_by="a", beside=counts)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([told((5, 0, 0), b=(3, 0, 0))], [told((5, 0, 0), b=(3, 0, 0))], ""),
        ([told((5, 0, 0), b=(3, 0, 0))], [told((6, 0, 0), b=(2, 0, 1))], "`make`, as b counts, ran 2 tests, 3 before"),
        ([told((5, 0, 0), b=(3, 0, 0))], [told((5, 0, 0))], "`make`, as b counts, ran 0 tests, 3 before"),
        ([told((5, 0, 0), b=(3, 0, 0))], [told((5, 0, 0), b=(3, 0, 1))], "as b counts, skipped 1 tests more"),
        (
            [told((5, 0, 0), b=(3, 0, 0))],
            [told((5, 0, 0), b=(4, 1, 0))],
            "1 tests more failed than before, as b counts",
        ),
        ([told((5, 0, 0), b=(3, 1, 0))], [told((5, 0, 0), b=(3, 1, 0))], ""),
        ([told((5, 0, 0))], [told((5, 0, 0), b=(3, 0, 2))], ""),
        ([told((5, 0, 0)), told((3, 0, 0))], [told((7, 0, 0)), told((1, 0, 0))], "`make`, as a counts, ran 1 tests"),
        ([told((5, 0, 0)), told((3, 0, 1))], [told((5, 0, 1)), told((3, 0, 0))], "as a counts, skipped 1 tests more"),
        # what b tells as well is judged once
        ([told((5, 0, 0), b=(5, 0, 0))], [told((4, 0, 0), b=(4, 0, 0))], "fewer than the 5 before"),
    ],
)
def test_no_account_and_no_command_makes_up_for_another(before, after, found):
    seen = objections(Run(steps=tuple(before)), Run(steps=tuple(after)), tree="", min_tests=1)

    assert len(seen) == bool(found) and all(found in one.message for one in seen)


@pytest.mark.parametrize(
    ("old_tests", "found"),
    [
        ({"t": "p", "u": "p"}, []),
        ({"t": "s", "u": "p", "u[2]": "p"}, ["new_skips"]),
        ({"u": "p", "u[2]": "p"}, ["removed_tests"]),
    ],
)
def test_a_test_of_the_base_that_does_not_run_is_not_satisfied(old_tests, found):
    before, after = named({"t": "p", "u": "p"}), named({"t": "p", "u": "p", "u[2]": "p"})

    seen = with_old_tests(before, after, named(old_tests), tree=TREE, rules=GateRules(), edited=["test_t.py"])

    assert [one.code for one in seen] == found


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"total 1": 37.5, "big": 100.0}, ""),
        ({"total 1": 37.5, "big": 42.9}, "coverage of big is 42.9 %, and was 100 %"),
        ({"total 1": 40.0, "small": 37.5}, ""),
        ({"big": 100.0}, "coverage of total 1 is not told"),
    ],
)
def test_no_total_of_coverage_hides_another(after, found):
    def covered(totals: dict[str, float]) -> Run:
        more = {"coverage": totals, "coverage_percent": min(totals.values())}
        return Run(steps=(run(5).steps[0].model_copy(update=more),))

    seen = objections(
        covered({"total 1": 37.5, "big": 100.0}), covered(after), tree="", min_tests=1,
        rules=GateRules(min_coverage="base"),
    )  # fmt: skip

    assert len(seen) == bool(found) and all(found in one.message for one in seen)


@pytest.mark.parametrize(
    ("unclear", "beside", "exit_code", "reason"),
    [
        ({}, "", 1, ""),
        ({"run-0": "`make -k`"}, "", 1, "what else fails in `run-0` (`make -k`) cannot be told"),
        ({"run-1": "`make -k`"}, "", 1, ""),
        ({"run-0": "`run-0`"}, "", 1, "what else fails in `run-0` cannot be told"),
        ({"run-0": "`make -k`"}, "", 0, ""),
        ({}, "too little", 1, "what else fails in `run-0` (too little) cannot be told"),
    ],
)
def test_what_is_known_to_fail_excuses_no_command_that_may_fail_otherwise(unclear, beside, exit_code, reason):
    steps = [
        step.model_copy(update={"exit_code": exit_code, "fails_beside": beside})
        for step in named({"t": "f", "u": "p"}).steps
    ]
    failing = Run(steps=tuple(steps), tree=TREE)

    found = objections(failing, failing, tree=TREE, min_tests=1, unclear=unclear)
    with_tests = with_old_tests(
        failing, failing, failing, tree=TREE, rules=GateRules(), edited=["t.py"], unclear=unclear
    )

    assert [one.code for one in (*found, *with_tests)] == (["failed", "tests_edited"] if reason else [])
    assert all(reason in one.message for one in found)


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
