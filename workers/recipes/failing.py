"""Names of tests, as far as a runner's output tells them. Pure. Some name all tests, others only what failed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envelope.recipe import TestCounts, TestNames

from .junit import MAX_NAME_CHARS, names_of

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
    "ctest": r"^\t +\d+ - (\S+) \(.*\)",
    "dotnet": r"^ +Failed (\S+)",
    "rspec": r"^rspec (\S+)",
}
# runner → lines that name every test, with its outcome: the groups (name and outcome) stand in this order
EACH: Mapping[str, str] = {
    "cargo": r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored)",
    "go": r"^--- (?P<outcome>PASS|FAIL|SKIP): (?P<name>\S+)",
}
OUTCOMES = {"ok": "passed", "PASS": "passed", "FAILED": "failed", "FAIL": "failed", "ignored": "skipped"}


def named_in(runner: str, output: str, counts: TestCounts) -> TestNames | None:
    """None where the names do not add up to the counts: then some are missing, and nobody knows which."""
    if pattern := EACH.get(runner):
        cases = [
            (_plain(match["name"]), OUTCOMES.get(match["outcome"], "skipped"))
            for match in re.finditer(pattern, output, re.MULTILINE)
        ]
        return names_of(cases) if len(cases) == counts.total else None
    failed = {_plain(match[1]) for match in re.finditer(FAILED[runner], output, re.MULTILINE)}
    return names_of([(name, "failed") for name in failed], complete=False) if _all(failed, counts) else None


def _all(failed: set[str], counts: TestCounts) -> bool:
    return len(failed) == counts.failed + counts.errors


def _plain(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:MAX_NAME_CHARS])
