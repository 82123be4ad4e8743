"""JUnit XML reports: how many tests, and which. Pure. The report is untrusted, as all that comes from a sandbox."""

from __future__ import annotations

import xml.parsers.expat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from envelope.recipe import TestCounts, TestNames

MAX_REPORT_BYTES = 16 * 1024 * 1024  # about 100,000 test cases in JUnit XML
# Names travel in a result of at most 1 MiB, and twenty commands may have some: a suite of about 2,000 tests is whole.
MAX_NAMES_CHARS = 192 * 1024
MAX_NAME_CHARS = 300
_OUTCOMES = {"failure": "failed", "error": "errors", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Report:
    counts: TestCounts
    names: TestNames | None


class _NotAllowed(Exception):
    """A report with a document type: entities have no place in one."""


def junit(report: bytes) -> TestCounts | None:
    """TestCounts of a JUnit XML report, by its test cases and not by the sums that it claims."""
    read = cases_of([report])
    return None if read is None else read.counts


def cases_of(reports: Sequence[bytes]) -> Report | None:
    """Of all reports together; None when one of them is none, for then nobody knows what is missing."""
    cases: list[tuple[str, str]] = []
    for report in reports:
        if len(report) > MAX_REPORT_BYTES or (found := _parsed(report)) is None:
            return None
        cases += found
    if not reports:
        return None
    return Report(counts_of(Counter(outcome for _, outcome in cases)), names_of(cases))


def _parsed(report: bytes) -> list[tuple[str, str]] | None:
    found: list[tuple[str, str]] = []
    open_case: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "testcase":
            open_case[:] = [_name(attributes), "passed"]
        elif open_case and (outcome := _OUTCOMES.get(name)):
            open_case[1] = outcome

    def end(name: str) -> None:
        if name == "testcase" and open_case:
            found.append((open_case[0], open_case[1]))
            open_case.clear()

    def refuse(*_: object) -> None:
        raise _NotAllowed

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(report, True)
    except (xml.parsers.expat.ExpatError, _NotAllowed):
        return None
    return found


def _name(attributes: Mapping[str, str]) -> str:
    """`tests.test_a.TestIt::test_one[2]`, without what would spoil a terminal."""
    parts = (attributes.get("classname", ""), attributes.get("name", ""))
    joined = "::".join(part for part in parts if part)
    return "".join(char if char.isprintable() else "?" for char in joined[:MAX_NAME_CHARS])


def names_of(cases: Sequence[tuple[str, str]], *, complete: bool = True) -> TestNames | None:
    """Of (name, outcome). Too many: only what failed; and nothing when that is too much as well."""
    kinds = {"passed": "passed", "failed": "failed", "errors": "failed", "skipped": "skipped"}
    groups: dict[str, set[str]] = {"failed": set(), "skipped": set(), "passed": set()}
    for name, outcome in cases:
        groups[kinds[outcome]].add(name)
    # A test that ran twice and failed once has failed.
    groups["skipped"] -= groups["failed"]
    groups["passed"] -= groups["failed"] | groups["skipped"]
    if sum(map(len, (name for group in groups.values() for name in group))) > MAX_NAMES_CHARS:
        groups, complete = {"failed": groups["failed"]}, False
    if sum(map(len, groups["failed"])) > MAX_NAMES_CHARS:
        return None
    sorted_groups = {kind: tuple(sorted(names)) for kind, names in groups.items()}
    return TestNames.model_validate({**cast("dict[str, object]", sorted_groups), "complete": complete})


def counts_of(found: Counter[str]) -> TestCounts:
    names = ("passed", "failed", "errors", "skipped")
    return TestCounts(**{name: found[name] for name in names}, total=found.total())
