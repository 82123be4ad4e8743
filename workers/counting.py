"""How many tests ran, as far as the test runner's own output says. Pure; None when nothing was recognised.

The output is untrusted: whoever wants to lie about tests can. What is counted here is compared with an earlier count
of the same commands by the gate, which runs them in a sandbox that no agent has touched.
"""

from __future__ import annotations

import re
import xml.parsers.expat
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

MAX_REPORT_BYTES = 16 * 1024 * 1024  # about 100,000 test cases in JUnit XML
SECONDS_OF_A_RUN = re.compile(r"in [\d.]+s")


@dataclass(frozen=True, slots=True)
class Counts:
    """`total` is all that were selected; passed = total - failed - errors - skipped."""

    passed: int
    failed: int
    errors: int
    skipped: int
    total: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class _NotAllowed(Exception):
    """A report with a document type: entities have no place in one."""


def junit(report: bytes) -> Counts | None:
    """Counts of a JUnit XML report, by its test cases and not by the sums that it claims."""
    if len(report) > MAX_REPORT_BYTES:
        return None
    found: Counter[str] = Counter()
    open_case: list[str] = []

    def start(name: str, _attributes: dict[str, str]) -> None:
        if name == "testcase":
            open_case[:] = ["passed"]
        elif open_case and (outcome := _OUTCOMES.get(name)):
            open_case[:] = [outcome]

    def end(name: str) -> None:
        if name == "testcase" and open_case:
            found[open_case.pop()] += 1

    def refuse(*_: object) -> None:
        raise _NotAllowed

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(report, True)
    except (xml.parsers.expat.ExpatError, _NotAllowed):
        return None
    return _counts(found)


_OUTCOMES = {"failure": "failed", "error": "errors", "skipped": "skipped"}


def summary(output: str) -> Counts | None:
    """Counts of the last summary that pytest, unittest, go test, cargo or node's runner printed."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return next((counts for reader in READERS if (counts := reader(plain)) is not None), None)


def _pytest(output: str) -> Counts | None:
    """`=== 1 failed, 20 passed, 2 skipped in 0.12s ===`, or the same without its frame."""
    lines = [line for line in output.splitlines() if SECONDS_OF_A_RUN.search(line)]
    words = {"passed": "passed", "xfailed": "skipped", "xpassed": "passed", "failed": "failed", "skipped": "skipped"}
    words |= {"error": "errors", "errors": "errors"}
    for line in reversed(lines):
        found: Counter[str] = Counter()
        pairs: list[tuple[str, str]] = re.findall(r"(\d+) (\w+)", line)
        for number, word in pairs:
            if word in words:
                found[words[word]] += int(number)
        if found or "no tests ran" in line:
            return _counts(found)
    return None


def _unittest(output: str) -> Counts | None:
    """`Ran 12 tests in 0.1s`, then `FAILED (failures=1, errors=2, skipped=3)` or `OK (skipped=1)`."""
    ran = _last(r"^Ran (\d+) tests? in [\d.]+s$", output)
    if ran is None:
        return None
    verdict = _last(r"^(?:OK|FAILED)(.*)$", output)
    pairs: list[tuple[str, str]] = re.findall(r"([a-z ]+)=(\d+)", verdict[1] if verdict else "")
    told = {name.strip(): int(number) for name, number in pairs}
    skipped = told.get("skipped", 0) + told.get("expected failures", 0)
    failed = told.get("failures", 0) + told.get("unexpected successes", 0)
    errors, total = told.get("errors", 0), int(ran[1])
    return Counts(max(0, total - failed - errors - skipped), failed, errors, skipped, total)


def _go(output: str) -> Counts | None:
    """`--- PASS: TestName` lines of `go test -v`; subtests are indented and count with their parent."""
    outcomes: list[str] = re.findall(r"^--- (PASS|FAIL|SKIP): ", output, re.MULTILINE)
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    return _counts(Counter(words[outcome] for outcome in outcomes)) if outcomes else None


def _cargo(output: str) -> Counts | None:
    """`test result: ok. 3 passed; 0 failed; 1 ignored; …`, one for each test binary."""
    rows: list[tuple[str, str, str]] = re.findall(
        r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", output, re.MULTILINE
    )
    if not rows:
        return None
    passed, failed, skipped = (sum(int(row[column]) for row in rows) for column in range(3))
    return Counts(passed, failed, 0, skipped, passed + failed + skipped)


def _node(output: str) -> Counts | None:
    """`# tests 3`, `# pass 2`, … of node's own runner (`ℹ` instead of `#` on a terminal)."""
    pairs: list[tuple[str, str]] = re.findall(r"^[#ℹ] (tests|pass|fail|skipped|todo|cancelled) (\d+)$", output, re.M)
    told = {name: int(number) for name, number in pairs}
    if "tests" not in told:
        return None
    skipped = told.get("skipped", 0) + told.get("todo", 0)
    return Counts(told.get("pass", 0), told.get("fail", 0), told.get("cancelled", 0), skipped, told["tests"])


READERS: tuple[Callable[[str], Counts | None], ...] = (_cargo, _go, _node, _unittest, _pytest)


def total_of(counts: Iterable[Counts | None]) -> Counts | None:
    """The sum of those that are known; None when none is."""
    known = [count for count in counts if count is not None]
    if not known:
        return None
    fields = ((count.passed, count.failed, count.errors, count.skipped, count.total) for count in known)
    passed, failed, errors, skipped, total = (sum(column) for column in zip(*fields, strict=True))
    return Counts(passed, failed, errors, skipped, total)


def _counts(found: Counter[str]) -> Counts:
    return Counts(found["passed"], found["failed"], found["errors"], found["skipped"], found.total())


def _last(pattern: str, output: str) -> re.Match[str] | None:
    matches = list(re.finditer(pattern, output, re.MULTILINE))
    return matches[-1] if matches else None
