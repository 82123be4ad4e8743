"""JUnit XML reports: how many tests, and which. Pure. The report is untrusted, as all that comes from a sandbox."""

from __future__ import annotations

import hashlib
import re
import xml.parsers.expat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from envelope.recipe import MAX_NAMES_BYTES, MAX_PLAIN_NAMES_CHARS, TestCounts, TestNames

MAX_REPORT_BYTES = 16 * 1024 * 1024  # about 100,000 test cases in JUnit XML
MAX_NAMES_CHARS = MAX_NAMES_BYTES // 2  # of all together; they travel packed
MAX_NAME_CHARS = 300
REST_CHARS = 16
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
MAX_TRACE_CHARS = 64 * 1024
_OUTCOMES = {"failure": "failed", "error": "errors", "skipped": "skipped"}
# Where a case has several, the gravest counts.
_GRAVITY = ("passed", "skipped", "failed", "errors")
_FIRST_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ControlCase:
    """A test of the platform's own (see `control.py`), one `of` so many, which its `word` tells from the others;
    `is_ours`: it failed in that word. Some plugins run a test that fails again: one case each time. `session`: which
    report it is from."""

    name: str
    word: str
    outcome: str
    of: int
    is_ours: bool
    session: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    counts: TestCounts
    names: TestNames | None
    controls: tuple[ControlCase, ...] = ()


@dataclass(slots=True)
class _Case:
    name: str
    outcome: str = "passed"
    control: str = ""  # what the property of a test of the platform's own says
    said: str = ""  # of its failure
    trace: str = ""  # of what went wrong

    def worsen(self, outcome: str) -> None:
        self.outcome = max(self.outcome, outcome, key=_GRAVITY.index)


class _NotAllowed(Exception):
    """A report with a document type: entities have no place in one."""


def junit(report: bytes) -> TestCounts | None:
    """TestCounts of a JUnit XML report, by its test cases and not by the sums that it claims."""
    read = cases_of([report])
    return None if read is None else read.counts


def cases_of(reports: Sequence[bytes], token: str = "") -> Report | None:
    """Of all reports together; None when one of them is none, for then nobody knows what is missing.

    Tests with a property `token` are not the project's, and stand apart.
    """
    found: list[_Case] = []
    controls: list[ControlCase] = []
    for session, report in enumerate(reports):
        if len(report) > MAX_REPORT_BYTES or (more := _parsed(report, token)) is None:
            return None
        found += more
        controls += [_control(case, session) for case in more if case.control]
    if not reports:
        return None
    cases = [(case.name, case.outcome) for case in found if not case.control]
    return Report(counts_of(Counter(outcome for _, outcome in cases)), names_of(cases), tuple(controls))


def _control(case: _Case, session: int) -> ControlCase:
    word, _, count = case.control.partition(" ")
    total = int(count) if _COUNT.fullmatch(count) else 0
    return ControlCase(case.name, word, case.outcome, total, word in case.said, session)


def _parsed(report: bytes, token: str) -> list[_Case] | None:
    found: list[_Case] = []
    open_case: list[_Case] = []
    inside: list[str] = []  # the outcome whose text is being read

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "testcase":
            open_case[:] = [_Case(_name(attributes))]
        elif open_case and (outcome := _OUTCOMES.get(name)):
            open_case[0].worsen(outcome)
            open_case[0].said += attributes.get("message", "")
            inside[:] = [name]
        elif open_case and name == "property" and token and attributes.get("name") == token:
            open_case[0].control = attributes.get("value", "")

    def text(said: str) -> None:
        if inside == ["error"] and open_case and len(open_case[0].trace) < MAX_TRACE_CHARS:
            open_case[0].trace += said

    def end(name: str) -> None:
        if name in _OUTCOMES:
            inside.clear()
        if name == "testcase" and open_case:
            case = open_case[0]
            if case.outcome == "errors" and _is_of_body(case):
                case.outcome = "failed"
            found.append(case)
            open_case.clear()

    def refuse(*_: object) -> None:
        raise _NotAllowed

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(report, True)
    except (xml.parsers.expat.ExpatError, _NotAllowed):
        return None
    return found


def _is_of_body(case: _Case) -> bool:
    """Most runners but pytest call it an error when a test's own body raises anything but a failed assertion. Then the
    test itself stands in the trace; it does not where a fixture failed, or an import."""
    own = _FIRST_WORD.match(case.name.rpartition("::")[2])
    return own is not None and has_frame_of(own[0], case.trace)


def has_frame_of(function: str, trace: str) -> bool:
    """Whether a traceback of Python (`…, in test_a`) or of the JVM and .NET (`at a.B.test_a(`) leads through it.

    >>> has_frame_of("test_a", '  File "t.py", line 3, in test_a\\n    1 / 0')
    True
    >>> has_frame_of("adds", "at shop.CartTest.setUp(CartTest.java:3)")
    False
    """
    name = re.escape(function)
    return (
        re.search(rf'^ *File ".*", line \d+, in {name}$|^[ \t]*at [\w.$]+\.{name}\(', trace, re.MULTILINE) is not None
    )


def _name(attributes: Mapping[str, str]) -> str:
    """`tests.test_a.TestIt::test_one[2]`, without what would spoil a terminal."""
    parts = (attributes.get("classname", ""), attributes.get("name", ""))
    return told_name("::".join(part for part in parts if part))


def told_name(name: str) -> str:
    """As it travels: of one that is too long a digest of the whole stands for the rest, so that no two become one.

    >>> told_name("a\\nb")
    'a?b'
    """
    if len(name) > MAX_NAME_CHARS:
        rest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:REST_CHARS]
        name = f"{name[: MAX_NAME_CHARS - REST_CHARS - 1]}…{rest}"
    return "".join(char if char.isprintable() else "?" for char in name)


def names_of(cases: Sequence[tuple[str, str]], *, complete: bool = True) -> TestNames | None:
    """Of (name, outcome), each as often as it stands there. Too many: only what failed; and nothing when that is too
    much as well."""
    kinds = {"passed": "passed", "failed": "failed", "errors": "failed", "skipped": "skipped"}
    groups: dict[str, list[str]] = {"failed": [], "skipped": [], "passed": []}
    for name, outcome in cases:
        groups[kinds[outcome]].append(name)
    if sum(map(len, (name for group in groups.values() for name in group))) > MAX_NAMES_CHARS:
        groups, complete = {"failed": groups["failed"]}, False
    if sum(map(len, groups["failed"])) > MAX_PLAIN_NAMES_CHARS:
        return None
    sorted_groups = {kind: tuple(sorted(names)) for kind, names in groups.items()}
    return TestNames.model_validate({**cast("dict[str, object]", sorted_groups), "complete": complete})


def counts_of(found: Counter[str]) -> TestCounts:
    names = ("passed", "failed", "errors", "skipped")
    return TestCounts(**{name: found[name] for name in names}, total=found.total())
