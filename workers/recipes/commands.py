"""Recipes: fixed commands in a sandbox, without a model. Codemods change files, `verify` counts tests."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from envelope.errors import ScopeExceeded
from envelope.events import CallState, Event, ToolCallChanged
from envelope.messages import ToolCallSummary
from envelope.recipe import RecipeParams, RecipeStep
from envelope.redaction import redact_head, redact_tail
from envelope.tracing.spans import variables
from repo.fairness import beside
from sandbox.base import WORKSPACE, Command, ExecResult, Sandbox
from transport.blobs.owners import acting_tenant

from ..clock import now_ms
from ..errors import BadInput
from ..permissions.guard import Guard
from ..tools.bash import TITLE_CHARS, Bash
from ..tools.dispatch import SHOWN_CHARS
from .control import lay_control, outcome
from .counting import Seen, all_seen_in, with_unbuilt, with_unprepared, without_colours
from .coverage import coverage_totals, misses_floor
from .digest import digest_in
from .js_hooks import failed_in_hooks
from .junit import Report
from .reports import TooManyReports, own_reports, place_of, read_reports, remove_reports

# Of each command's output, in the result: about a hundred lines hold a test runner's summary and its last traceback.
OUTPUT_TAIL_CHARS = 8000
# Who counted, where pytest wrote the report that it was asked for.
PYTESTS_OWN = "junit"
# The reason of an error is read at a glance; the step's whole tail stands in the output.
REASON_CHARS = 500
# Where Debian, Fedora, Alpine and a build of one's own have libfaketime.
FIND_CLOCK = """for file in /usr/lib/*/faketime /usr/lib/faketime /usr/lib64/faketime /usr/local/lib/faketime; do
  if [ -e "$file/libfaketime.so.1" ]; then echo "$file/libfaketime.so.1"; exit; fi
done"""


def parse_recipe(params: Mapping[str, Any]) -> RecipeParams:
    """`BadInput` names the first key that is wrong."""
    try:
        return RecipeParams.model_validate(params)
    except ValidationError as e:
        faults = e.errors(include_url=False, include_input=False)
        # A misspelt key is also a missing one, and the misspelling is what helps.
        fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
        where = ".".join(map(str, fault["loc"]))
        raise BadInput(
            f"the recipe's {where}: {fault['msg']}", hint=f"known keys: {', '.join(RecipeParams.model_fields)}"
        ) from e


def check_scope(recipe: RecipeParams, guard: Guard) -> None:
    """Every command must be within the task's scope before the first one runs, else `ScopeExceeded` names it."""
    for command in recipe.commands:
        if denied := guard.check(Bash().targets({"command": command})):
            raise ScopeExceeded(denied.reason, hint="grant the command with `bash:…`")


def succeeded(recipe: RecipeParams, step: RecipeStep) -> bool:
    return not step.timed_out and step.exit_code in recipe.ok_exit_codes


async def run_recipe(
    sandbox: Sandbox,
    recipe: RecipeParams,
    report: Callable[[Event], None],
    *,
    subpath: str = "",
    counts_tests: bool = False,
    stops_at_failure: bool = True,
    permit: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    env: Mapping[str, str] | None = None,
    first: int = 1,
) -> list[RecipeStep]:
    """Run the commands in order, each with a `permit`; the first failure is the last step if it `stops_at_failure`.

    `first`: the number of the first, where the task has run others.
    """
    cwd = posixpath.join(WORKSPACE, subpath)
    steps: list[RecipeStep] = []
    for number, command in enumerate(recipe.commands, first):
        given = Command(command, cwd=cwd, timeout_s=recipe.timeout_s, env={**variables(), **(env or {})})
        async with permit():
            step = await _run(sandbox, given, number, report, recipe, counts_tests)
        steps.append(step)
        report(_ended(number, step, succeeded(recipe, step)))
        if stops_at_failure and not succeeded(recipe, step):
            break
    return steps


def failure(recipe: RecipeParams, steps: Sequence[RecipeStep]) -> str:
    """What went wrong in the last step, in one sentence; empty when nothing did."""
    last = steps[-1]
    if succeeded(recipe, last):
        return ""
    how = f"took longer than {recipe.timeout_s:g} s" if last.timed_out else f"ended with {last.exit_code}"
    said = last.output_tail[-REASON_CHARS:].strip()
    return f"the command `{last.command}` {how}" + (f": {said}" if said else ", and printed nothing")


async def _run(
    sandbox: Sandbox,
    command: Command,
    number: int,
    tell: Callable[[Event], None],
    recipe: RecipeParams,
    counts_tests: bool,
) -> RecipeStep:
    text = str(command.command)
    tell(
        ToolCallChanged(
            call_id=_call_id(number),
            tool="bash",
            state=CallState.RUNNING,
            title=redact_head(text, TITLE_CHARS),
            input={"command": text},
            started_at_ms=now_ms(),
        )
    )
    if counts_tests:
        return await _counted(sandbox, command, text, recipe)
    return _step(text, await sandbox.exec(command))


async def _counted(sandbox: Sandbox, command: Command, text: str, recipe: RecipeParams) -> RecipeStep:
    """A gate's: what its runner tells of its tests, and what the platform sees of the runner."""
    own = own_reports()
    asked = f"{own}/report.xml"
    # what pytest writes where nobody could know counts more than what lies where everybody knows
    places = {PYTESTS_OWN: f"{own}/*.xml"}
    if recipe.junit:
        places[f"junit at {recipe.junit}"] = place_of(recipe.junit, command.cwd)
    await remove_reports(sandbox, places.values())
    # Only pytest reads the one. And compiled code that a change brings along is not run in its source's place.
    env = {**command.env, "PYTEST_ADDOPTS": f"--junitxml={asked}", "PYTHONPYCACHEPREFIX": f"{own}.cache"}
    if recipe.clock:
        library = (await sandbox.exec(Command(FIND_CLOCK))).output.decode().strip()
        if not library:
            return RecipeStep(command=text, clock="missing", output_tail="there is no libfaketime in this image")
        # time-outs and sleeps are measured by the other clock, which goes on as it does
        env |= {"LD_PRELOAD": library, "FAKETIME": recipe.clock, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    if recipe.control:
        await sandbox.kill_all()  # else it could stop the reader of the account, and tell one of its own
    control = await lay_control(sandbox, asked) if recipe.control else None
    given = control.around(text) if control else text
    listener = control.listener if control else None
    try:
        ended = await sandbox.exec(Command(given, cwd=command.cwd, timeout_s=command.timeout_s, env=env))
        said = await listener.all_said() if listener else b""
    finally:
        if listener:
            await listener.stop()
    output = ended.output.decode("utf-8", "replace")
    token, reports, unread = control.token if control else "", dict[str, Report](), ""
    try:
        reports = await read_reports(sandbox, places, token)
    except TooManyReports as too_many:
        unread = str(too_many)
    totals = coverage_totals(output)
    counted = {} if unread else _told(await _seen(sandbox, command.cwd, reports, output))
    told: dict[str, Any] = counted | {
        "unread": unread,
        "clock": "moved" if recipe.clock else "",
        "coverage_percent": min(totals.values(), default=None),
        "coverage": totals,
        "fails_beside": _fails_beside(ended, output),
    }
    if control:
        own_cases = reports[PYTESTS_OWN].controls if PYTESTS_OWN in reports else ()
        ended_so = await outcome(sandbox, control, own_cases)
        told |= {"control": ended_so.state, "fooled": ended_so.fooled, "held": ended_so.held}
        told["digest"] = await beside.run(acting_tenant(), partial(digest_in, said))
    return _step(text, ended).model_copy(update=told)


def _fails_beside(ended: ExecResult, output: str) -> str:
    """What may have made a command fail beside its tests, where it says so, or nobody can know."""
    if not ended.exit_code:
        return ""
    if misses_floor(output):
        return "it says that too little is covered"
    return "its output is too long to be read" if ended.truncated_bytes else ""


async def _seen(sandbox: Sandbox, cwd: str, reports: Mapping[str, Report], output: str) -> list[Seen]:
    """All accounts of the command's tests. The first is the one that counts; the others may tell of other tests."""
    printed = await beside.run(acting_tenant(), partial(all_seen_in, output))
    seen: list[Seen] = []
    for name, report in reports.items():
        # a report that another runner than pytest writes does not tell of what was not built
        counts = report.counts if name == PYTESTS_OWN else with_unbuilt(report.counts, output)
        seen.append(Seen(name, counts, report.names))
    if printed:
        in_hooks = await failed_in_hooks(sandbox, cwd, printed[0].counted_by, without_colours(output))
        first = seen[0] if seen else printed[0]
        first = replace(first, counts=with_unprepared(first.counts, in_hooks))
        return [first, *seen[1:], *(printed if seen else printed[1:])]
    return seen


def _told(seen: Sequence[Seen]) -> dict[str, Any]:
    if not seen:
        return {}
    first, *others = seen
    beside = {one.counted_by: one.counts for one in others}
    return {"tests": first.counts, "counted_by": first.counted_by, "names": first.names, "beside": beside}


def _step(command: str, ended: ExecResult) -> RecipeStep:
    return RecipeStep(
        command=command,
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        duration_ms=round(ended.duration_s * 1000),
        output_tail=redact_tail(ended.output.decode("utf-8", "replace"), OUTPUT_TAIL_CHARS),
    )


def call_summary(recipe: RecipeParams, step: RecipeStep) -> ToolCallSummary:
    failed = not succeeded(recipe, step)
    title = redact_head(step.command, TITLE_CHARS)
    return ToolCallSummary(tool="bash", title=title, is_error=failed, duration_ms=step.duration_ms)


def _ended(number: int, step: RecipeStep, ok: bool) -> ToolCallChanged:
    ended_ms = now_ms()
    return ToolCallChanged(
        call_id=_call_id(number),
        tool="bash",
        state=CallState.COMPLETED if ok else CallState.ERROR,
        title=redact_head(step.command, TITLE_CHARS),
        output=step.output_tail[-SHOWN_CHARS:],
        started_at_ms=ended_ms - step.duration_ms,
        ended_at_ms=ended_ms,
    )


def _call_id(number: int) -> str:
    return f"step-{number}"
