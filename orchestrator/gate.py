"""The gate: the project's own commands, run by the platform in a fresh sandbox, and what their outcome means.

*Done* and *verified* are different words: verified means that the gate passed on exactly this tree, that it ran
tests, and no fewer of them than on the base.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from envelope.errors import ErrorCode
from envelope.events import GateVerdict
from envelope.ids import content_key
from envelope.messages import ErrorInfo, TaskRequest, TaskResult, Workspace
from envelope.wire import Wire

from .driver import Work, completed
from .errors import TaskFailed
from .submit import BUILD, RECIPE_SCOPE, VERIFY, task_request

DETAIL_CHARS = 2_000  # the tail of a failing command: where test runners put their summary


class Counts(Wire):
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0

    @property
    def ran(self) -> int:
        """Skipped tests prove nothing, so they do not count."""
        return self.passed + self.failed + self.errors


class Step(Wire):
    command: str
    exit_code: int | None = None
    timed_out: bool = False
    output_tail: str = ""
    tests: Counts | None = None

    @property
    def passed(self) -> bool:
        """A runner whose failure is hidden (`pytest || true`) has failed all the same."""
        return self.exit_code == 0 and not self.timed_out and not (self.tests and self.tests.failed + self.tests.errors)


class Run(Wire):
    """The structured output of a `verify` task. `tree` is git's id of what was tested."""

    steps: tuple[Step, ...]
    tree: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.steps) and all(step.passed for step in self.steps)

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
        step = next((step for step in self.steps if not step.passed), None)
        if step is None:
            return ""
        how = "timed out" if step.timed_out else f"exit code {step.exit_code}"
        return f"`{step.command}`: {how}\n{step.output_tail[-DETAIL_CHARS:]}".rstrip()

    def verdict(self, phase: Literal["before", "after"]) -> GateVerdict:
        return GateVerdict(
            phase=phase,
            passed=self.passed,
            tests=self.tests,
            failed=self.failed,
            skipped=self.skipped,
            detail=self.detail,
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a change is verified; if not, one sentence why and what to try."""

    verified: bool
    reason: str = ""
    hint: str = ""


def read_run(result: TaskResult) -> Run:
    """What a `verify` task saw. Failing commands are an answer; `TaskFailed` when they could not be run at all."""
    try:
        return Run.model_validate(result.output.structured)
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
        return Judgement(False, f"the gate fails: {_first_line(after)}", "see the gate's output: muster task logs")
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


@dataclass(frozen=True, slots=True)
class Gate:
    """The commands of one driver's gate, on one repository. `key` names the repository where there are several."""

    driver: TaskRequest
    commands: tuple[str, ...]
    workspace: Workspace
    key: str = ""

    def before(self, *, deadline_ms: int) -> Work:
        """On the base. That a gate passes there holds for whoever asks; that it fails is looked at again."""
        key = content_key("gate", "before", *self._about(self.workspace))
        return self._work("before", self.workspace, key, deadline_ms, _passed)

    def after(self, changes: str, *, deadline_ms: int) -> Work:
        """On the base with the diff blob `changes`. Each driver proves its own: a verdict may have been bad luck."""
        workspace = self.workspace.model_copy(update={"changes": changes})
        key = content_key("gate", "after", self.driver.task_id, *self._about(workspace))
        return self._work("after", workspace, key, deadline_ms, completed)

    def _about(self, workspace: Workspace) -> tuple[str, str]:
        return workspace.model_dump_json(), json.dumps(self.commands)

    def _work(
        self, phase: str, workspace: Workspace, key: str, deadline_ms: int, reusable: Callable[[TaskResult], bool]
    ) -> Work:
        request = task_request(
            parent=self.driver,
            agent=VERIFY,
            pool=BUILD,
            params={"commands": list(self.commands)},
            workspace=workspace,
            auth_scope=RECIPE_SCOPE,
            deadline_ms=deadline_ms,
            idempotency_key=key,
            sender=self.driver.agent,
        )
        title = f"gate {phase} · {self.key}" if self.key else f"gate {phase}"
        return Work(f"{phase}:{self.key}", request, title, reusable)


def _passed(result: TaskResult) -> bool:
    return completed(result) and read_run(result).passed
