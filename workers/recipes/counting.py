"""How many tests ran, as far as the test runner's own output says. Pure; None when nothing was recognised.

The output is untrusted: whoever wants to lie about tests can. What is counted here is compared with an earlier count
of the same commands by the gate, which runs them in a sandbox that no agent has touched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from envelope.recipe import TestCounts, TestNames

from .failing import named_in
from .junit import MAX_REPORT_BYTES, counts_of, has_frame_of, junit
from .runners import MORE_READERS

__all__ = ["MAX_REPORT_BYTES", "Seen", "junit", "seen_in", "summary"]

# Counts are read from at most nine digits: more are a joke, and beyond 64 bits none travels.
SECONDS_OF_A_RUN = re.compile(r"in [\d.]+s")
RAN = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s$", re.MULTILINE)
_VERDICT = re.compile(r"^(?:OK|FAILED)\b(.*)$", re.MULTILINE)
_SECTION = re.compile(r"^==+ (?:FAILURES|ERRORS) ==+$", re.MULTILINE)
_OF_A_SUMMARY = re.compile(r"\d{1,9} [a-z]+(?: [a-z]+)?")
_TOOK = re.compile(r"[\d.]+s(?: \([^()]*\))?")
# `ERROR: test_a (tests.T.test_a)` of unittest, with its traceback.
_ERRORS = re.compile(r"^ERROR: (?P<method>\w+)\b.*\n(?P<trace>(?:(?!={70}|-{70}\nRan ).*\n)*)", re.MULTILINE)
# What runners print of files that they could not build or load, and of preparations that failed. No test tells of the
# first; runners count the second among the tests that failed.
NOT_BUILT: Mapping[str, str] = {
    "go": r"^FAIL\t\S+ \[(?:build|setup) failed\]$|^exit status (?!1$)\d+$|^signal: ",
    "cargo": r"^error(?:\[E\d+\])?: could not compile|^ +process didn't exit successfully: .*\(signal: ",
    "jest": r"^  ● Test suite failed to run$",
    "vitest": r"^⎯+ Failed Suites \d+ ⎯+$",
    "maven": r"^\[ERROR\] COMPILATION ERROR",
    "dotnet": r"^.*: error (?:CS|FS|BC|MSB|NETSDK)\d+: ",
    "rspec": r"^An error occurred while loading ",
}
NOT_PREPARED: Mapping[str, str] = {
    "mocha": r'^(?: {7,}|  \d+\) )"(?:before|after) (?:all|each)" hook.*:$',
    "ctest": r"^\t +\d+ - .+ \((?!Failed|Skipped|Disabled)[^()\n]+\)$",
    "node": r"^ *failureType: '(?:testCodeFailure'\n +exitCode: |hookFailed'$)",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one command told of its tests, and by whose words: a gate believes no other runner than before."""

    counted_by: str
    counts: TestCounts
    names: TestNames | None = None


def all_seen_in(output: str) -> list[Seen]:
    """By the summaries that known runners printed, all sessions of each together. The most particular comes first: in
    the words of another it may stand alone."""
    text = without_colours(output)
    shown = _without_captured(text)
    found: list[Seen] = []
    for name, reader in READERS.items():
        plain = text if name == "pytest" else shown
        if name == "pytest" and found and not any(map(_is_exact, plain.splitlines())):
            continue  # words of another runner's, or of what is tested
        if (counts := reader(plain)) is not None:
            found.append(Seen(name, _with_errors(name, plain, counts), named_in(name, plain, counts)))
    return found


def _without_captured(output: str) -> str:
    """Without what pytest shows of tests that failed: they may have had runners of their own."""
    kept: list[str] = []
    is_shown = True
    for line in output.split("\n") if _SECTION.search(output) else [output]:
        if line.startswith("==") and line.endswith("=="):
            is_shown = _SECTION.fullmatch(line) is None
        if is_shown:
            kept.append(line)
    return "\n".join(kept)


def seen_in(output: str) -> Seen | None:
    return next(iter(all_seen_in(output)), None)


def without_colours(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def with_unprepared(counts: TestCounts, count: int) -> TestCounts:
    """With so many of the failures as errors: what failed was no test's own body."""
    moved = min(count, counts.failed)
    return counts.model_copy(update={"failed": counts.failed - moved, "errors": counts.errors + moved})


def with_unbuilt(counts: TestCounts, output: str, runners: Iterable[str] = NOT_BUILT) -> TestCounts:
    """With an error for each thing that one of the runners says it could not build or load."""
    count = sum(len(re.findall(NOT_BUILT[runner], output, re.MULTILINE)) for runner in runners if runner in NOT_BUILT)
    return counts.model_copy(update={"errors": counts.errors + count, "total": counts.total + count})


def _with_errors(runner: str, output: str, counts: TestCounts) -> TestCounts:
    """With what the runner tells elsewhere than in its summary."""
    unprepared = len(re.findall(NOT_PREPARED[runner], output, re.MULTILINE)) if runner in NOT_PREPARED else 0
    return with_unbuilt(with_unprepared(counts, unprepared), output, (runner,))


def summary(output: str) -> TestCounts | None:
    """TestCounts of all summaries that pytest, unittest, go test, cargo, node's or another known runner printed."""
    seen = seen_in(output)
    return seen.counts if seen else None


def _pytest(output: str) -> TestCounts | None:
    """`=== 1 failed, 20 passed, 2 skipped in 0.12s ===`, or the same without its frame; one for each session. Where no
    line is just that, those count that have it among other words."""
    lines = [line for line in output.splitlines() if SECONDS_OF_A_RUN.search(line)]
    exact = [line for line in lines if _is_exact(line)]
    words = {"passed": "passed", "xfailed": "skipped", "xpassed": "passed", "failed": "failed", "skipped": "skipped"}
    words |= {"error": "errors", "errors": "errors"}
    found: Counter[str] = Counter()
    is_there = False
    for line in exact or lines:
        pairs: list[tuple[str, str]] = re.findall(r"(\d{1,9}) (\w+)", line)
        counted = [(number, words[word]) for number, word in pairs if word in words]
        is_there = is_there or bool(counted) or "no tests ran" in line
        for number, outcome in counted:
            found[outcome] += int(number)
    return counts_of(found) if is_there else None


def _is_exact(line: str) -> bool:
    told, _, took = line.strip("= ").rpartition(" in ")
    parts = told.split(", ")
    return (told == "no tests ran" or all(map(_OF_A_SUMMARY.fullmatch, parts))) and _TOOK.fullmatch(took) is not None


def _unittest(output: str) -> TestCounts | None:
    """`Ran 12 tests in 0.1s`, then `FAILED (failures=1, errors=2, skipped=3)` or `OK (skipped=1)`; for each session."""
    starts = list(RAN.finditer(output))
    if not starts:
        return None
    found: Counter[str] = Counter()
    for ran, end in zip(starts, [*(start.start() for start in starts[1:]), len(output)], strict=True):
        verdict = _VERDICT.search(output, ran.end(), end)
        pairs: list[tuple[str, str]] = re.findall(r"(?<![a-z ])([a-z ]++)=(\d{1,9})", verdict[1] if verdict else "")
        told = {name.strip(): int(number) for name, number in pairs}
        skipped = told.get("skipped", 0) + told.get("expected failures", 0)
        failed = told.get("failures", 0) + told.get("unexpected successes", 0)
        passed = max(0, int(ran[1]) - failed - told.get("errors", 0) - skipped)
        found += Counter(passed=passed, failed=failed, errors=told.get("errors", 0), skipped=skipped)
    of_bodies = min(found["errors"], sum(_is_of_body(block) for block in _ERRORS.finditer(output)))
    return counts_of(found + Counter(failed=of_bodies) - Counter(errors=of_bodies))


def _is_of_body(error: re.Match[str]) -> bool:
    """What a test raises is an error to unittest; so is what an import, or its setUp, raises."""
    return has_frame_of(error["method"], error["trace"])


def _go(output: str) -> TestCounts | None:
    """`--- PASS: TestName` lines of `go test -v`; subtests are indented, and tests like others."""
    outcomes: list[str] = re.findall(r"^ *--- (PASS|FAIL|SKIP): ", output, re.MULTILINE)
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    return counts_of(Counter(words[outcome] for outcome in outcomes)) if outcomes else None


def _cargo(output: str) -> TestCounts | None:
    """`test result: ok. 3 passed; 0 failed; 1 ignored; …`, one for each test binary."""
    rows: list[tuple[str, str, str]] = re.findall(
        r"^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored", output, re.MULTILINE
    )
    if not rows:
        return None
    passed, failed, skipped = (sum(int(row[column]) for row in rows) for column in range(3))
    return counts_of(Counter(passed=passed, failed=failed, skipped=skipped))


def _node(output: str) -> TestCounts | None:
    """`# tests 3`, `# pass 2`, … of node's own runner (`ℹ` instead of `#` on a terminal); for each session."""
    words = {"pass": "passed", "fail": "failed", "cancelled": "errors", "skipped": "skipped", "todo": "skipped"}
    rows: list[tuple[str, str]] = re.findall(r"^[#ℹ] (\w+) (\d{1,9})$", output, re.MULTILINE)
    if all(word != "tests" for word, _ in rows):
        return None
    found: Counter[str] = Counter()
    for word, number in rows:
        if word in words:
            found[words[word]] += int(number)
    return counts_of(found)


# The order matters where one runner's words look like another's: the most particular come first.
READERS: Mapping[str, Callable[[str], TestCounts | None]] = {
    "cargo": _cargo,
    "go": _go,
    "node": _node,
    "unittest": _unittest,
    **MORE_READERS,
    "pytest": _pytest,
}
