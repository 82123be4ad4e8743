"""What reports say of a repository's gate: which runs and which evidence, and where it is to be shown. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...gating.text import Line, evidence_lines
from ..report import RepositoryReport

# Of these objections the names are files of the repository; of the others they are tests.
NAME_FILES = ("gate_edited", "tests_edited", "runner_reached")


def gate_lines(one: RepositoryReport) -> list[Line]:
    """All of its runs, where they are known; else the one before the change and the one after it."""
    return list(evidence_lines(one.evidence.runs or (one.before, one.after), one.evidence))


def is_rejected(one: RepositoryReport) -> bool:
    """Was there a gate, or a reason, and no proof?"""
    return not one.verified and (one.after is not None or bool(one.evidence.objections))


def faults(one: RepositoryReport) -> Iterator[tuple[str, str, str]]:
    """Why it is rejected: a rule's name, the words, and the file that they are about (empty: none in particular)."""
    for objection in one.evidence.objections:
        said = f"{objection.message}; {objection.hint}" if objection.hint else objection.message
        files = objection.names if objection.code in NAME_FILES else ()
        yield from ((f"gate_{objection.code}", said, file) for file in (files or ("",)))
    if not one.evidence.objections:
        yield "gate", one.reason or "not verified", ""


def output_of(one: RepositoryReport) -> str:
    """What the gate's commands printed at the end, where they failed."""
    last = one.after or one.before
    return last.detail if last is not None and not one.verified else ""
