"""Recipes: fixed commands in a sandbox, without a model. Codemods change files, `verify` counts tests."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envelope.errors import ScopeExceeded
from envelope.events import CallState, Event, ToolCallChanged
from envelope.messages import ToolCallSummary
from sandbox.base import WORKSPACE, Command, ExecResult, Sandbox
from sandbox.errors import PathError

from .clock import now_ms
from .counting import MAX_REPORT_BYTES, Counts, junit, summary
from .errors import BadInput
from .permissions.guard import Guard
from .tools.bash import Bash

MAX_TIMEOUT_S = 24 * 3600.0  # the longest deadline; a command never outlives its task anyway
OUTPUT_TAIL_CHARS = 8000
SHOWN_CHARS = 400
REPORT_FOLDER = "/tmp/muster-reports"  # noqa: S108 - inside the sandbox, and out of the workspace's patch


class Recipe(BaseModel):
    """`input.params` of a recipe task. A command succeeds when its exit code is among `ok_exit_codes`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commands: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    ok_exit_codes: tuple[int, ...] = (0,)
    timeout_s: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S)] = 1800.0  # the whole test-suite of a large project


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    ended: ExecResult
    tests: Counts | None = None

    @property
    def output_tail(self) -> str:
        return self.ended.output.decode("utf-8", "replace")[-OUTPUT_TAIL_CHARS:]

    @property
    def duration_ms(self) -> int:
        return round(self.ended.duration_s * 1000)

    def as_dict(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "exit_code": self.ended.exit_code,
            "timed_out": self.ended.timed_out,
            "duration_ms": self.duration_ms,
            "output_tail": self.output_tail,
            "tests": self.tests.as_dict() if self.tests else None,
        }

    def as_summary(self, recipe: Recipe) -> ToolCallSummary:
        failed = not succeeded(recipe, self)
        return ToolCallSummary(tool="bash", title=self.command[:100], is_error=failed, duration_ms=self.duration_ms)


def parse_recipe(params: Mapping[str, Any]) -> Recipe:
    """`BadInput` names the first key that is wrong."""
    try:
        return Recipe.model_validate(params)
    except ValidationError as e:
        faults = e.errors(include_url=False, include_input=False)
        # A misspelt key is also a missing one, and the misspelling is what helps.
        fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        where = ".".join(map(str, fault["loc"]))
        raise BadInput(
            f"the recipe's {where}: {fault['msg']}", hint=f"known keys: {', '.join(Recipe.model_fields)}"
        ) from e


def check_scope(recipe: Recipe, guard: Guard) -> None:
    """Every command must be within the task's scope before the first one runs, else `ScopeExceeded` names it."""
    for command in recipe.commands:
        if denied := guard.check(Bash().targets({"command": command})):
            raise ScopeExceeded(denied.reason, hint="grant the command with `bash:…`")


def succeeded(recipe: Recipe, step: Step) -> bool:
    return not step.ended.timed_out and step.ended.exit_code in recipe.ok_exit_codes


async def run_recipe(
    sandbox: Sandbox,
    recipe: Recipe,
    report: Callable[[Event], None],
    *,
    subpath: str = "",
    counts_tests: bool = False,
    goes_on: bool = False,
) -> list[Step]:
    """Run the commands in order; the first failure is the last step, unless `goes_on`."""
    cwd = posixpath.join(WORKSPACE, subpath)
    steps: list[Step] = []
    for number, command in enumerate(recipe.commands, 1):
        step = await _run(sandbox, Command(command, cwd=cwd, timeout_s=recipe.timeout_s), number, report, counts_tests)
        steps.append(step)
        report(_ended(number, step, succeeded(recipe, step)))
        if not (goes_on or succeeded(recipe, step)):
            break
    return steps


def failure(recipe: Recipe, steps: Sequence[Step]) -> str:
    """What went wrong in the last step, in one sentence; empty when nothing did."""
    last = steps[-1]
    if succeeded(recipe, last):
        return ""
    how = f"took longer than {recipe.timeout_s:g} s" if last.ended.timed_out else f"ended with {last.ended.exit_code}"
    return f"the command `{last.command}` {how}: {last.output_tail[-500:].strip()}"


async def _run(
    sandbox: Sandbox, command: Command, number: int, report: Callable[[Event], None], counts_tests: bool
) -> Step:
    text = str(command.command)
    report(
        ToolCallChanged(
            call_id=_call_id(number),
            tool="bash",
            state=CallState.RUNNING,
            title=text[:100],
            input={"command": text},
            started_at_ms=now_ms(),
        )
    )
    if not counts_tests:
        return Step(text, await sandbox.exec(command))
    report_path = f"{REPORT_FOLDER}/{number}.xml"
    env = {"PYTEST_ADDOPTS": f"--junitxml={report_path}"}  # only pytest reads it
    ended = await sandbox.exec(Command(text, cwd=command.cwd, timeout_s=command.timeout_s, env=env))
    counts = await _reported(sandbox, report_path) or summary(ended.output.decode("utf-8", "replace"))
    return Step(text, ended, counts)


async def _reported(sandbox: Sandbox, path: str) -> Counts | None:
    try:
        return junit(await sandbox.read(path, max_bytes=MAX_REPORT_BYTES + 1))
    except PathError:
        return None


def _ended(number: int, step: Step, ok: bool) -> ToolCallChanged:
    ended_ms = now_ms()
    return ToolCallChanged(
        call_id=_call_id(number),
        tool="bash",
        state=CallState.COMPLETED if ok else CallState.ERROR,
        title=step.command[:100],
        output=step.output_tail[-SHOWN_CHARS:],
        started_at_ms=ended_ms - step.duration_ms,
        ended_at_ms=ended_ms,
    )


def _call_id(number: int) -> str:
    return f"step-{number}"
