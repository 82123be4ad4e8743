"""Counting tests from reports and summaries as real runners print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.counting import MAX_REPORT_BYTES, Counts, junit, summary, total_of

REPORT = b"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite tests="99">
<testcase name="a"/><testcase name="b"><failure message="x">trace</failure></testcase>
<testcase name="c"><skipped type="pytest.xfail"/></testcase><testcase name="d"><error/></testcase>
<testcase name="e"><system-out>out</system-out></testcase></testsuite></testsuites>"""


def test_a_junit_report_is_counted_by_its_cases_and_not_by_its_claims():
    assert junit(REPORT) == Counts(passed=2, failed=1, errors=1, skipped=1, total=5)


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
    ("output", "counts"),
    [
        ("====== 3 passed in 0.12s ======", Counts(3, 0, 0, 0, 3)),
        ("1 failed, 20 passed, 2 skipped, 1 xfailed, 3 warnings, 1 error in 61.20s (0:01:01)", Counts(20, 1, 1, 3, 25)),
        ("\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m", Counts(2, 0, 0, 0, 2)),
        ("no tests ran in 0.01s", Counts(0, 0, 0, 0, 0)),
        ("5 passed in 1.0s\n...\n7 passed in 2.0s", Counts(7, 0, 0, 0, 7)),
        ("Ran 12 tests in 0.003s\n\nOK", Counts(12, 0, 0, 0, 12)),
        ("Ran 12 tests in 0.003s\n\nFAILED (failures=1, errors=2, skipped=3)", Counts(6, 1, 2, 3, 12)),
        ("Ran 1 test in 0.003s\n\nOK (expected failures=1)", Counts(0, 0, 0, 1, 1)),
        ("--- PASS: TestA (0.0s)\n    --- PASS: TestA/sub (0.0s)\n--- FAIL: TestB (0.1s)\n--- SKIP: TestC (0.0s)\nFAIL",
         Counts(1, 1, 0, 1, 3)),
        ("test result: ok. 3 passed; 0 failed; 1 ignored\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
         Counts(4, 2, 0, 1, 7)),
        ("# tests 4\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0", Counts(2, 1, 0, 1, 4)),
        ("\u2139 tests 1\n\u2139 pass 1\n\u2139 fail 0", Counts(1, 0, 0, 0, 1)),
    ],
)  # fmt: skip
def test_the_summary_of_a_known_runner_is_understood(output: str, counts: Counts):
    assert summary(output) == counts


@pytest.mark.parametrize("output", ["", "all good", "built in 3.2s", "12 files changed in 0.1s", "tests passed"])
def test_what_is_no_summary_counts_nothing(output: str):
    assert summary(output) is None


@given(st.text())
def test_no_output_makes_the_readers_fail(output: str):
    counts = summary(output)
    assert counts is None or counts.total >= 0


@given(st.binary())
def test_no_report_makes_the_parser_fail(report: bytes):
    counts = junit(report)
    assert counts is None or counts.total >= 0


def test_sums_leave_out_what_is_not_known():
    assert total_of([None, Counts(1, 0, 0, 0, 1), Counts(1, 1, 0, 0, 2)]) == Counts(2, 1, 0, 0, 3)
    assert total_of([None]) is None
