"""Reasons why a gate's commands ran no tests, in the runner's own words. Pure.

A gate that did not run proves nothing: neither what it says of a base excuses a change, nor can a change be compared
with it. A test whose own body failed is no obstacle, nor is a checker that found something.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envelope.recipe import RecipeStep

MAX_SAID_CHARS = 200
# What a shell says of a program that was killed by a signal (128 and above), or that it could not start; `timeout` of
# coreutils ends with the codes from 124 on.
NO_ORDINARY_CODE = 124
# pytest ends with 0 or 1 when it has run its tests; 2 to 5 are an interruption, an error of its own, wrong usage, and
# no tests (docs.pytest.org, "Exit codes").
PYTEST_DID_NOT_RUN = range(2, 6)
# Whatever a command of a Makefile ends with, make ends with 2.
_MAKE = re.compile(r"\bg?make\b")
_PYTEST = re.compile(r"\b(?:pytest|py\.test)\b")
# The first line that fits says best what went wrong.
_SAID = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^E +((?:\w+\.)*\w*(?:Error|Exception)\b.*)$",
        r"^((?:\w+\.)*(?:ModuleNotFoundError|ImportError): .+)$",
        r"^ERROR: (?!\w+ \()(.+)$",
        r"^ERROR (\S.*)$",
        r"^(.*(?:: not found|: command not found|No module named|Cannot find (?:module|package)) ?.*)$",
        r"^((?:\w+\.)*\w+(?:Error|Exception): .+)$",
        r"^((?:FAIL\t.*\[(?:build|setup) failed\]|error: could not compile.*))$",
    )
)
_MODULE = re.compile(r"No module named '?([\w.]+)|Cannot find (?:module|package) '([^']+)'")
_PLACE = re.compile(r"not found|No such file|can't open file|cannot open|unrecognized arguments")

ALL_THE_SAME = (
    "to go on all the same, with no proof in the end: --gate-rule broken_base=allow "
    '(in a batch file, [gate] broken_base = "allow")'
)
NO_PROGRAM = 127  # as a shell says it


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`message`: the command, how it ended and what it said; `hint`: what may help."""

    message: str
    hint: str


def obstacle_in(steps: Sequence[RecipeStep], min_tests: int) -> Obstacle | None:
    """The first there is. With `min_tests = 0`, for gates that run no tests, these need not be there."""
    for step in steps:
        if how := _how(step):
            return _obstacle(step, how)
    if min_tests and not any(step.tests and step.tests.ran for step in steps):
        return _no_tests(steps)
    return None


def _how(step: RecipeStep) -> str:
    """Empty when the command ran to an ordinary end."""
    code = step.exit_code
    if step.timed_out:
        return "timed out"
    if step.unread:
        return f"its tests cannot be counted, {step.unread}"
    if code is None:
        return "was killed"
    if code >= NO_ORDINARY_CODE:
        return f"could not be run to its end, exit code {code}"
    if step.tests and step.tests.errors:
        count = step.tests.errors
        return f"{count} error{'s' if count > 1 else ''} outside of tests, exit code {code}"
    return f"pytest did not run its tests, exit code {code}" if _is_cut_short(step, code) else ""


def _is_cut_short(step: RecipeStep, code: int) -> bool:
    """A later command may have ended so, when pytest had counted its tests and none had failed."""
    if code not in PYTEST_DID_NOT_RUN or (code == 2 and _MAKE.search(step.command)):
        return False
    if step.tests is None:
        return _PYTEST.search(step.command) is not None
    return step.counted_by in ("junit", "pytest") and (step.tests.failed > 0 or step.tests.total == 0)


def _no_tests(steps: Sequence[RecipeStep]) -> Obstacle:
    what = "no test" if any(step.tests for step in steps) else "no test that could be counted"
    if skipped := sum(step.tests.skipped for step in steps if step.tests):
        what = "one test, which was skipped" if skipped == 1 else f"{skipped} tests, all of them skipped"
    for step in steps:
        if step.exit_code:
            obstacle = _obstacle(step, f"exit code {step.exit_code}")
            return Obstacle(f"the commands ran {what}; {obstacle.message}", obstacle.hint)
    hint = "use commands that run tests; in a batch file, [gate] min_tests = 0 trusts exit codes alone (docs/gate.md)"
    return Obstacle(f"the commands ran {what}", hint)


def _obstacle(step: RecipeStep, how: str) -> Obstacle:
    said = _said(step)
    return Obstacle(f"`{step.command}`: {how}{f': {said}' if said else ''}", _hint(step, said))


def _said(step: RecipeStep) -> str:
    for pattern in _SAID:
        if found := pattern.search(step.output_tail):
            return found[1].strip()[:MAX_SAID_CHARS]
    lines = [line.strip() for line in step.output_tail.splitlines() if line.strip(" =-_")]
    return lines[-1][:MAX_SAID_CHARS] if lines and not (step.tests and step.tests.ran) else ""


def _hint(step: RecipeStep, said: str) -> str:
    if step.timed_out:
        return "choose fewer tests, or give it more: --gate-rule timeout_s=SECONDS (in a batch file, [gate] timeout_s)"
    if module := _MODULE.search(said):
        name = (module[1] or module[2]).partition(".")[0]
        return f"install {name!r} before the gate runs: --setup 'pip install …' (in a batch file, [setup] commands)"
    if step.exit_code == NO_PROGRAM:
        return "correct the gate's command, install its program in setup, or name an image that has it in MUSTER_IMAGE"
    if _PLACE.search(said):
        return "look at the gate's command and at the folder that it runs in"
    return "mend that first, or choose gate commands that run on the base"
