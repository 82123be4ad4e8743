"""Counting tests from reports and summaries as real runners print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.recipe import TestCounts
from workers.recipes.counting import MAX_REPORT_BYTES, junit, summary

REPORT = b"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite tests="99">
<testcase name="a"/><testcase name="b"><failure message="x">trace</failure></testcase>
<testcase name="c"><skipped type="pytest.xfail"/></testcase><testcase name="d"><error/></testcase>
<testcase name="e"><system-out>out</system-out></testcase></testsuite></testsuites>"""


def counts(passed: int, failed: int, errors: int, skipped: int, total: int) -> TestCounts:
    return TestCounts(passed=passed, failed=failed, errors=errors, skipped=skipped, total=total)


def sums_up(found: TestCounts) -> bool:
    return found.passed + found.failed + found.errors + found.skipped == found.total


def test_a_junit_report_is_counted_by_its_cases_and_not_by_its_claims():
    assert junit(REPORT) == TestCounts(passed=2, failed=1, errors=1, skipped=1, total=5)


@pytest.mark.parametrize(
    "report",
    [
        b"", b"not xml", REPORT[:-20], b"<testsuites>" * 3,
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuites><testcase name="&a;"/></testsuites>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuites/>',
        b" " * (MAX_REPORT_BYTES + 1),
    ],
)  # fmt: skip
def test_a_report_that_is_broken_hostile_or_huge_counts_nothing(report: bytes):
    assert junit(report) is None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("====== 3 passed in 0.12s ======", counts(3, 0, 0, 0, 3)),
        ("1 failed, 20 passed, 2 skipped, 1 xfailed, 3 warnings, 1 error in 61.20s (0:01:01)", counts(20, 1, 1, 3, 25)),
        ("\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m", counts(2, 0, 0, 0, 2)),
        ("no tests ran in 0.01s", counts(0, 0, 0, 0, 0)),
        ("5 passed in 1.0s\n...\n7 passed in 2.0s", counts(7, 0, 0, 0, 7)),
        ("Ran 12 tests in 0.003s\n\nOK", counts(12, 0, 0, 0, 12)),
        ("Ran 12 tests in 0.003s\n\nFAILED (failures=1, errors=2, skipped=3)", counts(6, 1, 2, 3, 12)),
        ("Ran 1 test in 0.003s\n\nOK (expected failures=1)", counts(0, 0, 0, 1, 1)),
        ("--- PASS: TestA (0.0s)\n    --- PASS: TestA/sub (0.0s)\n--- FAIL: TestB (0.1s)\n--- SKIP: TestC (0.0s)\nFAIL",
         counts(1, 1, 0, 1, 3)),
        ("test result: ok. 3 passed; 0 failed; 1 ignored\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
         counts(4, 2, 0, 1, 7)),
        ("# tests 4\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0", counts(2, 1, 0, 1, 4)),
        ("\u2139 tests 1\n\u2139 pass 1\n\u2139 fail 0", counts(1, 0, 0, 0, 1)),
    ],
)  # fmt: skip
def test_the_summary_of_a_known_runner_is_understood(output: str, expected: TestCounts):
    assert summary(output) == expected


@pytest.mark.parametrize("output", ["", "all good", "built in 3.2s", "12 files changed in 0.1s", "tests passed"])
def test_what_is_no_summary_counts_nothing(output: str):
    assert summary(output) is None


@given(st.text())
def test_no_output_makes_the_readers_fail(output: str):
    found = summary(output)
    assert found is None or sums_up(found)


@given(st.binary())
def test_no_report_makes_the_parser_fail(report: bytes):
    found = junit(report)
    assert found is None or sums_up(found)
