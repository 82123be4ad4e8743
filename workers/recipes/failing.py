"""Names of tests, as far as a runner's output tells them. Pure. Some name all tests, others only what failed."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from envelope.recipe import TestCounts, TestNames

from .junit import names_of, told_name

# runner → lines that name a test which failed, the name being the first group
FAILED: Mapping[str, str] = {
    "pytest": r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$",
    "unittest": r"^(?:FAIL|ERROR): (.+)$",
    "node": r"^ *not ok \d+ - (.+?)(?: # .*)?$",
    "jest": r"^  ● (.+)$",
    "vitest": r"^ FAIL  (.+)$",
    "mocha": r"^  \d+\) (.+)$",
    "maven": r"^\[ERROR\] (\S+)(?: .*)? <<< (?:FAILURE|ERROR)!$",
    "gradle": r"^(\S+ > .+) FAILED$",
    "ctest": r"^\t +\d+ - (.+) \((?!Skipped|Disabled)[^()\n]+\)$",
    "dotnet": r"^ +Failed (\S+)",
    "rspec": r"^rspec (\S+)",
}
# runner → lines that name every test, with its outcome: the groups (name and outcome) stand in this order
EACH: Mapping[str, str] = {
    "cargo": r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored)",
    "go": r"^ *--- (?P<outcome>PASS|FAIL|SKIP): (?P<name>\S+)",
}
OUTCOMES = {
    **dict.fromkeys(("ok", "PASS"), "passed"),
    **dict.fromkeys(("FAILED", "FAIL"), "failed"),
    **dict.fromkeys(("ignored", "SKIP"), "skipped"),
}
# ` 1/11 Test  #1: fast .............................***Skipped   0.01 sec`
_CTEST = re.compile(
    r"^ *(?:\d+/\d+ )?Test +#(\d+): (.+?) \.{2,} *(?:\*\*\*)?(Passed|Skipped|Not Run \(Disabled|[A-Z]\w+)", re.MULTILINE
)
_CTEST_SKIPS = ("Skipped", "Not Run (Disabled")
# What cargo says of each program of tests before it starts it, and what that says first. The one goes to stderr, the
# other to stdout: each comes in its own order, and nobody knows which of two lines came before the other.
_PROGRAM = re.compile(
    r"^ {3,12}(?:Running (unittests )?(\S{1,999}) \((\S{1,999})\)|Doc-tests (\S{1,999}))$", re.MULTILINE
)
_BEGINS = re.compile(r"^running \d+ tests?$", re.MULTILINE)
# What go says of a package when its tests are done.
_PACKAGE = re.compile(r"^(?:ok  |FAIL)\t(\S+)", re.MULTILINE)
_LINE = re.compile(r" \(line \d+\)$")  # of a test in cargo's documents: it is another after each edit above


def named_in(runner: str, output: str, counts: TestCounts) -> TestNames | None:
    """None where the names do not add up to the counts: then some are missing, and nobody knows which."""
    if runner == "ctest" and (names := _of_ctest(output, counts)):
        return names
    if pattern := EACH.get(runner):
        cases = [
            (told_name(f"{home}{_RENAMED[runner](match['name'])}"), OUTCOMES.get(match["outcome"], "skipped"))
            for home, text in _HOMES[runner](output)
            for match in re.finditer(pattern, text, re.MULTILINE)
        ]
        return names_of(cases) if len(cases) == counts.total else None
    failed = {told_name(match[1]) for match in re.finditer(FAILED[runner], output, re.MULTILINE)}
    return names_of([(name, "failed") for name in failed], complete=False) if _all(failed, counts) else None


def _all(failed: set[str], counts: TestCounts) -> bool:
    return len(failed) == counts.failed + counts.errors


def _of_ctest(output: str, counts: TestCounts) -> TestNames | None:
    cases: list[tuple[str, str]] = []
    for session in re.split(r"^Test project ", output, flags=re.MULTILINE):
        last: dict[str, tuple[str, str]] = {}  # `--repeat` runs a test that fails again
        for number, name, ended in _CTEST.findall(session):
            outcome = "passed" if ended == "Passed" else "skipped" if ended in _CTEST_SKIPS else "failed"
            last[number] = told_name(name), outcome
        cases += last.values()
    found = Counter(outcome for _, outcome in cases)
    is_whole = (found["passed"], found["skipped"], len(cases)) == (counts.passed, counts.skipped, counts.total)
    return names_of(cases) if is_whole else None


def _of_programs(output: str) -> Iterator[tuple[str, str]]:
    """What each of cargo's programs of tests printed, with its package and its file: tests of two may bear one name.
    Without these where it cannot be told whose it is."""
    begins = [match.start() for match in _BEGINS.finditer(output)]
    programs = list(_PROGRAM.finditer(output))
    if not begins or len(begins) != len(programs):
        yield "", output
        return
    package, within_tests = "", True
    for program, start, end in zip(programs, begins, [*begins[1:], len(output)], strict=True):
        is_of_code, path, built, documented = program.groups()
        # a package's library comes first, then its programs, then its tests
        if is_of_code and (within_tests or path == "src/lib.rs"):
            package = posixpath.basename(built).rpartition("-")[0]
        within_tests = not is_of_code
        home = f"{documented} (documents)" if documented else f"{package}:{path}"
        yield f"{home}::", output[start:end]


def _of_packages(output: str) -> Iterator[tuple[str, str]]:
    start = 0
    for package in _PACKAGE.finditer(output):
        yield f"{package[1]}::", output[start : package.start()]
        start = package.end()
    yield "", output[start:]


def _as_cases(name: str) -> str:
    """`TestA/one` of go is a case of `TestA`."""
    test, slash, case = name.partition("/")
    return f"{test}[{case}]" if slash else name


_HOMES = {"cargo": _of_programs, "go": _of_packages}
_RENAMED: Mapping[str, Callable[[str], str]] = {"cargo": lambda name: _LINE.sub("", name), "go": _as_cases}
