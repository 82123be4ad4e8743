"""What the outcome of the gate's commands means. Pure.

*Done* and *verified* are different words: verified means that the gate passed on exactly this tree, that it ran
tests, and no fewer of them than on the base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from envelope.errors import ErrorCode
from envelope.events import GateVerdict
from envelope.messages import ErrorInfo, TaskResult
from envelope.recipe import RecipeOutput, RecipeStep

from .errors import TaskFailed

DETAIL_CHARS = 2_000  # the tail of a failing command: where test runners put their summary

Phase = Literal["before", "after"]


class Run(RecipeOutput):
    """The structured output of the `verify` task `task_id`. `tree` is git's id of what was tested."""

    task_id: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.steps) and all(map(_passed, self.steps))

    @property
    def tests(self) -> int | None:
        """How many tests ran; None when no command's could be counted."""
        counted = [step.tests.ran for step in self.steps if step.tests is not None]
        return sum(counted) if counted else None

    @property
    def failed(self) -> int:
        return sum(step.tests.failed + step.tests.errors for step in self.steps if step.tests is not None)

    @property
    def skipped(self) -> int:
        return sum(step.tests.skipped for step in self.steps if step.tests is not None)

    @property
    def detail(self) -> str:
        """The first command that failed, with the end of what it said."""
        step = next((step for step in self.steps if not _passed(step)), None)
        if step is None:
            return ""
        how = "timed out" if step.timed_out else f"exit code {step.exit_code}"
        return f"`{step.command}`: {how}\n{step.output_tail[-DETAIL_CHARS:]}".rstrip()

    def verdict(self, phase: Phase) -> GateVerdict:
        """As it travels in events and results; of its steps only how the first that failed ended."""
        return GateVerdict(
            phase=phase,
            passed=self.passed,
            tests=self.tests,
            failed=self.failed,
            skipped=self.skipped,
            detail=self.detail,
        )


def _passed(step: RecipeStep) -> bool:
    """A runner whose failure is hidden (`pytest || true`) has failed all the same."""
    return step.exit_code == 0 and not step.timed_out and not (step.tests and step.tests.failed + step.tests.errors)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a change is verified; if not, one sentence why and what to try."""

    verified: bool
    reason: str = ""
    hint: str = ""


def read_run(result: TaskResult) -> Run:
    """What a `verify` task saw. Failing commands are an answer; `TaskFailed` when they could not be run at all."""
    try:
        return Run.model_validate(result.output.structured).model_copy(update={"task_id": result.task_id})
    except ValidationError as e:
        lost = ErrorInfo.of(ErrorCode.INTERNAL, "the gate's task gave no account of its steps")
        raise TaskFailed(result.errors[0] if result.errors else lost) from e


def judge(before: Run, after: Run, *, tree: str, min_tests: int) -> Judgement:
    """Is the change whose tree is `tree` verified by the two runs? The first objection counts."""
    if after.tree != tree:
        return Judgement(
            False, f"the gate tested the tree {after.tree[:12] or 'none'}, not {tree[:12]}, the merged one"
        )
    if not after.passed:
        return _not_passed(before, after)
    if (after.tests or 0) < min_tests:
        hint = "use commands that run tests, or set gate.min_tests = 0 to trust exit codes alone"
        return Judgement(False, f"the gate ran {_tests(after.tests)}, at least {min_tests} are needed", hint)
    if (after.tests or 0) < (before.tests or 0):
        hint = "look for tests that were removed, renamed or skipped"
        return Judgement(False, f"the gate ran {_tests(after.tests)}, fewer than the {before.tests} before", hint)
    return Judgement(True)


def _not_passed(before: Run, after: Run) -> Judgement:
    if before.passed:
        return Judgement(
            False, f"the gate fails: {_first_line(after)}", f"see the gate's output: muster task logs {after.task_id}"
        )
    hint = "mend the base, or choose gate commands that pass on it"
    counts = f"{before.failed} failed before, {after.failed} after"
    no_worse = after.failed <= before.failed and (after.tests or 0) >= (before.tests or 0) and after.tests
    if no_worse:
        return Judgement(False, f"the gate fails on the base already and no worse now ({counts}): not verified", hint)
    return Judgement(False, f"the gate fails on the base already, and now it fails more ({counts})", hint)


def _tests(count: int | None) -> str:
    return "no test that could be counted" if count is None else f"{count} tests"


def _first_line(run: Run) -> str:
    return run.detail.partition("\n")[0]
