"""More test runners' summaries, each in the words that it prints. Pure; None when it is not there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from envelope.recipe import TestCounts

from .junit import counts_of

# What runners call the outcomes of a test, in their summaries.
WORDS = {
    **dict.fromkeys(("passed", "pass", "passing"), "passed"),
    **dict.fromkeys(("failed", "fail", "failing", "failures", "failure"), "failed"),
    **dict.fromkeys(("errors", "error"), "errors"),
    **dict.fromkeys(("skipped", "todo", "pending", "ignored", "incomplete"), "skipped"),
}


def _pairs(text: str) -> Counter[str]:
    """`3 passed, 1 failed` and the like."""
    rows: list[tuple[str, str]] = re.findall(r"(\d{1,9}) ([a-z]+)", text)
    found: Counter[str] = Counter()
    for number, word in rows:
        if word in WORDS:
            found[WORDS[word]] += int(number)
    return found


def _lines(pattern: str, output: str) -> list[str]:
    return [match[1] for match in re.finditer(pattern, output, re.MULTILINE)]


def _sessions(pattern: str, output: str) -> TestCounts | None:
    """Of each session a line, all together."""
    lines = _lines(pattern, output)
    return counts_of(_pairs("\n".join(lines))) if lines else None


def _jest(output: str) -> TestCounts | None:
    """`Tests:       1 failed, 2 skipped, 9 passed, 12 total`."""
    return _sessions(r"^Tests: {1,20}((?:\d{1,9} [a-z]{1,20}, ){0,9}\d{1,9} total)$", output)


def _vitest(output: str) -> TestCounts | None:
    """`      Tests  1 failed | 9 passed | 2 skipped (12)`."""
    return _sessions(r"^ {0,20}Tests {2,20}((?:\d{1,9} [a-z ]{1,20}(?:\| )?){1,9}) ?\(\d{1,9}\)$", output)


def _mocha(output: str) -> TestCounts | None:
    """`  9 passing (20ms)`, `  2 pending`, `  1 failing`, each on a line of its own."""
    lines = _lines(r"^ +(\d{1,9} (?:passing \(.*\)|pending|failing))$", output)
    return counts_of(_pairs("\n".join(lines))) if any("passing" in line for line in lines) else None


def _sums(rows: list[tuple[str, ...]]) -> TestCounts:
    """Rows of (all, failures, errors, skipped)."""
    total, failed, errors, skipped = (sum(int(row[column] or 0) for row in rows) for column in range(4))
    passed = max(0, total - failed - errors - skipped)
    return counts_of(Counter(passed=passed, failed=failed, errors=errors, skipped=skipped))


def _maven(output: str) -> TestCounts | None:
    """`[INFO] Tests run: 12, Failures: 1, Errors: 0, Skipped: 2`: one for each module. A class's own line goes on."""
    rows: list[tuple[str, ...]] = re.findall(
        r"^(?:\[\w+\] )?Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9})$",
        output,
        re.MULTILINE,
    )
    return _sums(rows) if rows else None


def _gradle(output: str) -> TestCounts | None:
    """`12 tests completed, 1 failed, 2 skipped`, which it says only when one has failed: have it write JUnit XML."""
    rows: list[tuple[str, ...]] = re.findall(
        r"^(\d{1,9}) tests? completed, (\d{1,9}) failed()(?:, (\d{1,9}) skipped)?$", output, re.MULTILINE
    )
    return _sums(rows) if rows else None


def _ctest(output: str) -> TestCounts | None:
    """`75% tests passed, 1 tests failed out of 4`, the skipped ones among those that passed, the disabled ones not;
    below it `	  1 - fast (Skipped)`."""
    rows: list[tuple[str, str]] = re.findall(
        r"^\d{1,3}% tests passed, (\d{1,9}) tests? failed out of (\d{1,9})$", output, re.MULTILINE
    )
    aside = Counter(_lines(r"^\t +\d+ - .+ \((Skipped|Disabled)\)$", output))
    counted = [(total, failed, "", "") for failed, total in rows]
    return _sums([*counted, (str(aside["Disabled"]), "", "", str(aside.total()))]) if rows else None


def _dotnet(output: str) -> TestCounts | None:
    """`Passed!  - Failed:     0, Passed:     3, Skipped:     1, Total:     4`: one for each assembly."""
    rows: list[tuple[str, str, str]] = re.findall(
        r"- Failed: +(\d{1,9}), Passed: +\d{1,9}, Skipped: +(\d{1,9}), Total: +(\d{1,9})", output
    )
    return _sums([(total, failed, "", skipped) for failed, skipped, total in rows]) if rows else None


def _rspec(output: str) -> TestCounts | None:
    """`12 examples, 1 failure, 2 pending`."""
    rows: list[tuple[str, ...]] = re.findall(
        r"^(\d{1,9}) examples?, (\d{1,9}) failures?()(?:, (\d{1,9}) pending)?", output, re.MULTILINE
    )
    return _sums(rows) if rows else None


MORE_READERS: Mapping[str, Callable[[str], TestCounts | None]] = {
    "jest": _jest,
    "vitest": _vitest,
    "mocha": _mocha,
    "maven": _maven,
    "gradle": _gradle,
    "ctest": _ctest,
    "dotnet": _dotnet,
    "rspec": _rspec,
}
