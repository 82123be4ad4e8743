"""A gate's verdict and evidence as text: a label and a line each, for the terminal and for every report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from envelope.events import GateVerdict
from envelope.gate import GateEvidence
from envelope.messages import TaskResult

MAX_SHOWN = 20  # tests or files in a line; the evidence itself has them all

Line = tuple[str, str]


def gate_name(event: GateVerdict) -> str:
    """`after`, or `after, again (1)`: what run of the gate it was."""
    return f"{event.phase}, {event.about}" if event.about else event.phase


def verdict_text(event: GateVerdict) -> str:
    """What failed without being one of the tests, a module say, could not be run.

    >>> verdict_text(GateVerdict(phase="before", passed=True, tests=250, skipped=2))
    'passed, 250 tests (2 skipped)'
    >>> verdict_text(GateVerdict(phase="before", passed=False, tests=0, failed=1))
    'failed, 0 tests (1 could not be run)'
    """
    counts = "tests not counted" if event.tests is None else f"{event.tests} test{'' if event.tests == 1 else 's'}"
    is_of_tests = event.tests is None or event.failed <= event.tests
    asides = ((event.failed, "failed" if is_of_tests else "could not be run"), (event.skipped, "skipped"))
    aside = ", ".join(f"{count} {name}" for count, name in asides if count)
    detail = f": {event.detail.splitlines()[0]}" if event.detail and not event.passed else ""
    return f"{'passed' if event.passed else 'failed'}, {counts}{f' ({aside})' if aside else ''}{detail}"


def excused_text(count: int) -> str:
    """What stands beside `verified` where tests fail that fail on the base, too. Empty where none does.

    >>> excused_text(4), excused_text(1), excused_text(0)
    ('the same 4 tests fail on the base', 'the same test fails on the base', '')
    """
    if not count:
        return ""
    return "the same test fails on the base" if count == 1 else f"the same {count} tests fail on the base"


def proof_text(*, verified: bool, reason: str) -> str:
    """*Done* and *verified* are different words, and what is excused is never left out.

    >>> proof_text(verified=True, reason=""), proof_text(verified=True, reason=excused_text(4))
    ('done and verified', 'verified: the same 4 tests fail on the base')
    >>> proof_text(verified=False, reason="no gate is configured")
    'done, not verified: no gate is configured'
    """
    if verified:
        return f"verified: {reason}" if reason else "done and verified"
    return f"done, not verified{f': {reason}' if reason else ''}"


def told_by_driver(result: TaskResult) -> dict[str, Any]:
    """What a goal or a batch says of itself. A driver says so, which asks no model: what an agent, which does, says of
    itself counts for nothing."""
    said: object = None if result.metrics.turns else result.output.structured
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def proof_of(result: TaskResult) -> tuple[bool, str]:
    """Whether a goal is verified, and why or why not."""
    told = told_by_driver(result)
    return told.get("verified") is True, str(told.get("reason") or "")


def evidence_lines(runs: Iterable[GateVerdict | None], evidence: GateEvidence) -> Iterator[Line]:
    """The counts of `runs`, then each objection with the tests or files that it names, and what else was noticed."""
    yield from ((gate_name(run), verdict_text(run)) for run in runs if run is not None)
    for objection in evidence.objections:
        unsaid = [name for name in objection.names if name not in objection.message]
        named = f" ({names_text(objection.names)})" if unsaid else ""
        yield f"rejected ({objection.code})", f"{objection.message}{named}"
    lists = {
        "new failures": evidence.new_failures,
        "failed before, too": evidence.known_failures,
        "flaky": evidence.flaky,
        "restored": evidence.restored,
        "tests changed": tuple(f"{one.status} {one.path} +{one.added} −{one.removed}" for one in evidence.test_files),
    }
    yield from ((label, names_text(names)) for label, names in lists.items() if names)
    yield from (("note", note) for note in evidence.notes)


def names_text(names: Sequence[str]) -> str:
    """
    >>> names_text(("a", "b"))
    'a, b'
    """
    more = len(names) - MAX_SHOWN
    return ", ".join([*names[:MAX_SHOWN], *([f"{more} more"] if more > 0 else [])])


def listed(names: Sequence[str], most: int = 3) -> str:
    """
    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(names) - most
    return f"{', '.join(names[:most])} and {more} more" if more > 0 else ", ".join(names)
