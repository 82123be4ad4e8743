"""Counting tests from reports and summaries as real runners print them."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.recipe import TestCounts, TestNames
from workers.recipes.counting import MAX_REPORT_BYTES, all_seen_in, junit, seen_in, summary, with_unbuilt
from workers.recipes.coverage import coverage_totals, misses_floor
from workers.recipes.js_hooks import FAILURES
from workers.recipes.junit import cases_of

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
        ("5 passed in 1.0s\n...\n7 passed, 1 failed in 2.0s", counts(12, 1, 0, 0, 13)),
        ("Ran 12 tests in 0.003s\n\nOK", counts(12, 0, 0, 0, 12)),
        ("Ran 12 tests in 0.003s\n\nFAILED (failures=1, errors=2, skipped=3)", counts(6, 1, 2, 3, 12)),
        ("Ran 1 test in 0.003s\n\nOK (expected failures=1)", counts(0, 0, 0, 1, 1)),
        ("--- PASS: TestA (0.0s)\n    --- PASS: TestA/sub (0.0s)\n--- FAIL: TestB (0.1s)\n--- SKIP: TestC (0.0s)\nFAIL",
         counts(2, 1, 0, 1, 4)),
        ("2 passed in 1.0s\n1 error and 3 passed pages in 2.0s\n3 passed, 1 warning in 61.20s (0:01:01)",
         counts(5, 0, 0, 0, 5)),
        ("py: 3 passed, 1 failed in 0.1s", counts(3, 1, 0, 0, 4)),
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


@pytest.mark.parametrize(
    ("runner", "output", "expected"),
    [
        ("jest", "Tests:       1 failed, 2 skipped, 9 passed, 12 total\nTime:        1.2 s", counts(9, 1, 0, 2, 12)),
        ("vitest", "      Tests  1 failed | 9 passed | 2 skipped (12)\n", counts(9, 1, 0, 2, 12)),
        ("mocha", "  9 passing (20ms)\n  2 pending\n  1 failing\n", counts(9, 1, 0, 2, 12)),
        ("maven", "[INFO] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1, Time elapsed: 0.1 s -- in a.B\n"
                  "[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1\n"
                  "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0",
         counts(3, 1, 1, 1, 6)),
        ("gradle", "12 tests completed, 1 failed, 2 skipped", counts(9, 1, 0, 2, 12)),
        ("ctest", "75% tests passed, 1 tests failed out of 4\n", counts(3, 1, 0, 0, 4)),
        ("dotnet", "Passed!  - Failed:     0, Passed:     3, Skipped:     1, Total:     4, Duration",
         counts(3, 0, 0, 1, 4)),
        ("rspec", "12 examples, 1 failure, 2 pending\n", counts(9, 1, 0, 2, 12)),
    ],
)  # fmt: skip
def test_further_runners_are_understood_and_told_apart(runner: str, output: str, expected: TestCounts):
    seen = seen_in(output)

    assert seen is not None
    assert (seen.counted_by, seen.counts) == (runner, expected)


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("FAILED tests/a.py::test_b[x] - assert 1 == 2\n1 failed, 1 passed in 0.1s", ("tests/a.py::test_b[x]",)),
        ("FAIL: test_a (t.T.test_a)\nERROR: test_b (t.T)\nRan 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)",
         ("test_a (t.T.test_a)", "test_b (t.T)")),
        ("--- FAIL: TestB (0.1s)\n--- PASS: TestA (0.0s)", ("TestB",)),
        ("test a::b ... ok\ntest c ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored", ("c",)),
        ("rspec ./a_spec.rb:3 # it\n2 examples, 1 failure\n", ("./a_spec.rb:3",)),
    ],
)  # fmt: skip
def test_tests_that_failed_are_named(output: str, failed: tuple[str, ...]):
    seen = seen_in(output)

    assert seen is not None and seen.names is not None
    assert seen.names.failed == failed


CARGO = """     Running unittests src/lib.rs (target/debug/deps/a-3110576fc3c3c96d)
     Running tests/it.rs (target/debug/deps/it-e9084a9c25208d2e)

running 1 test
test tests::adds ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.18s


running 1 test
test it_works ... FAILED

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running unittests src/main.rs (target/debug/deps/b_c-d297d743c1d6421f)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.17s

     Running unittests src/bin/z.rs (target/debug/deps/z-0297d743c1d6421f)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.17s

     Running tests/it.rs (target/debug/deps/it-e78ea17bd32e905b)

running 1 test
test it_works ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests a

running 1 test
test a/src/lib.rs - add (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.17s
"""
GO = """--- FAIL: TestIt (0.00s)
    --- SKIP: TestIt/one (0.00s)
    --- FAIL: TestIt/two_of/them (0.00s)
FAIL
FAIL\texample.com/m/a\t0.002s
--- PASS: TestIt (0.00s)
PASS
ok  \texample.com/m/b\t0.002s
"""


def test_tests_of_one_name_are_told_apart_by_their_package():
    cargo, go = seen_in(CARGO), seen_in(GO)

    assert cargo is not None and cargo.names is not None and go is not None and go.names is not None
    assert cargo.names.failed == ("a:tests/it.rs::it_works",)  # though what cargo says came before what the tests say
    assert cargo.names.passed == (
        "a (documents)::a/src/lib.rs - add", "a:src/lib.rs::tests::adds", "b_c:tests/it.rs::it_works",
    )  # fmt: skip
    assert go.names.failed == ("example.com/m/a::TestIt", "example.com/m/a::TestIt[two_of/them]")
    assert (go.names.skipped, go.names.passed) == (("example.com/m/a::TestIt[one]",), ("example.com/m/b::TestIt",))


def test_what_is_only_like_pytests_summary_stands_beside_no_other_runner():
    seen = all_seen_in("Ran 2 tests in 0.1s\n\nOK\ntest result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.00s\n")
    logged = all_seen_in("Ran 2 tests in 0.1s\n\nOK\nsync: 3 failed, 1 passed in 0.1s\n")

    assert [one.counted_by for one in seen] == ["cargo", "unittest"]
    assert [one.counted_by for one in logged] == ["unittest"]


CTEST = """Test project /tmp/ct
      Start  1: fast
 1/11 Test  #1: fast .............................***Skipped   0.01 sec
 2/11 Test  #3: ok ...............................   Passed    0.00 sec
 3/11 Test  #4: bad ..............................***Failed    0.00 sec
 4/11 Test  #5: dis ..............................***Not Run (Disabled)   0.00 sec
 5/11 Test  #6: segv .............................***Exception: SegFault  0.00 sec
 6/11 Test  #8: no file ..........................***Not Run   0.00 sec
 7/11 Test  #9: a name with blanks ...............   Passed    0.01 sec

    Start 4: bad
    Test #4: bad ..............................***Failed    0.01 sec

50% tests passed, 3 tests failed out of 6

Total Test time (real) =   1.04 sec

The following tests did not run:
\t  1 - fast (Skipped)
\t  5 - dis (Disabled)

The following tests FAILED:
\t  4 - bad (Failed)
\t  6 - segv (SEGFAULT)
\t  8 - no file (Not Run)
"""


def test_what_ctest_left_out_did_not_pass():
    seen, quiet = seen_in(CTEST), seen_in(CTEST.partition("50% ")[1] + CTEST.partition("50% ")[2])

    assert seen is not None and seen.names is not None and quiet is not None and quiet.names is not None
    assert seen.counts == quiet.counts == counts(2, 1, 2, 2, 7)
    assert (seen.names.passed, seen.names.skipped) == (("a name with blanks", "ok"), ("dis", "fast"))
    assert seen.names.failed == quiet.names.failed == ("bad", "no file", "segv")


def test_a_name_counts_as_often_as_it_stands_there_and_a_long_one_is_no_other():
    case = '<testcase classname="t" name="{}"/>'.format
    read = cases_of([f"<testsuite>{case('a')}{case('a')}{case('x' * 301)}{case('x' * 302)}</testsuite>".encode()])

    assert read is not None and read.names is not None
    first, second, *others = read.names.passed
    assert (first, second, len(set(others)), {len(name) for name in others}) == ("t::a", "t::a", 2, {300})


def test_names_that_do_not_add_up_are_none():
    seen = seen_in("FAILED a - once\n2 failed in 0.1s")
    assert seen is not None and seen.names is None


def test_a_report_names_its_cases_without_what_would_spoil_a_terminal():
    read = cases_of(
        [b'<testsuite><testcase classname="a.B" name="c&#10;d"/><testcase name="e"><error/></testcase></testsuite>']
    )

    assert read is not None and read.names is not None
    assert (read.names.passed, read.names.failed, read.names.complete) == (("a.B::c?d",), ("e",), True)


def test_too_many_names_are_left_out_but_for_those_that_failed():
    cases = "".join(f'<testcase name="{"x" * 250}{number}"/>' for number in range(18_000))
    read = cases_of([f'<testsuite>{cases}<testcase name="bad"><failure/></testcase></testsuite>'.encode()])

    assert read is not None and read.names is not None
    assert (read.counts.total, read.names.passed, read.names.failed) == (18_001, (), ("bad",))
    assert not read.names.complete


def test_the_names_of_a_large_suite_travel_packed():
    many = tuple(f"tests.unit.test_{number % 97}::test_of_some_length_{number:05}" for number in range(12_000))
    names = TestNames(passed=many, failed=("bad",), skipped=("a", "a"), complete=True)
    told = names.model_dump_json()

    assert len(told) < 200_000 and TestNames.model_validate_json(told) == names
    older = json.loads(told)
    older.pop("packed")
    assert TestNames.model_validate(older) == TestNames(failed=("bad",))


@pytest.mark.parametrize(
    "packed",
    [
        "!", "", 7, None, b64encode(b"none").decode(), b64encode(compress(b"[]")).decode(),
        b64encode(compress(b'["a"]')).decode(), b64encode(compress(b"7")).decode(),
        b64encode(compress(b'[["' + b"a" * 50_000_000 + b'"], []]')).decode(),
    ],
)  # fmt: skip
def test_what_is_packed_wrongly_is_as_good_as_missing(packed: object):
    assert TestNames.model_validate({"failed": ["bad"], "packed": packed}) == TestNames(failed=("bad",))


def test_of_several_reports_all_must_be_readable():
    assert cases_of([REPORT, b"broken"]) is None
    both = cases_of([REPORT, REPORT])
    assert both is not None and both.counts.total == 10


@pytest.mark.parametrize(
    ("output", "percent"),
    [
        ("TOTAL                 120     30    75%", 75.0),
        ("TOTAL      120     30     8      2    74.53%\n", 74.53),
        ("ok  \tx/y\t0.01s\tcoverage: 81.2% of statements\ncoverage: 60.0% of statements", 60.0),
        ("ok  \tx/y\t0.01s\tcoverage: 81.2% of statements", 81.2),
        ("All files |   85.71 |      100 |   66.66 |", 85.71),
        ("TOTAL 999%", None),
        ("", None),
    ],
)
def test_coverage_is_read_where_a_tool_prints_its_total(output: str, percent: float | None):
    assert min(coverage_totals(output).values(), default=None) == percent


def test_each_total_of_coverage_is_kept_by_its_package():
    told = "ok  \tx/y\t0.01s\tcoverage: 81.2% of statements\nTOTAL 75%\ncoverage: 60.0% of statements\nTOTAL 70%\n"

    assert coverage_totals(told) == {"total 1": 75.0, "total 2": 70.0, "x/y": 81.2, "total 3": 60.0}


def test_a_runner_that_finds_too_little_covered_says_so():
    assert misses_floor(
        "FAIL Required test coverage of 90% not reached. Total coverage: 80.00%\n1 failed, 2 passed in 1s"
    )
    assert misses_floor('Jest: "global" coverage threshold for lines (90%) not met: 50%')
    assert not misses_floor("Required test coverage of 80% reached. Total coverage: 90.00%\n1 failed in 0.1s")


UNITTEST = """
======================================================================
ERROR: test_a (t.T.test_a)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/w/t.py", line 6, in test_a
    {}["x"]
KeyError: 'x'

======================================================================
ERROR: test_b (t.T.test_b)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/w/t.py", line 3, in setUp
    {}["x"]
KeyError: 'x'

======================================================================
ERROR: test_c (unittest.loader._FailedTest.test_c)
----------------------------------------------------------------------
ImportError: Failed to import test module: test_c
Traceback (most recent call last):
  File "/usr/lib/python3.11/unittest/loader.py", line 419, in _find_test_path
    module = self._get_module_from_name(name)
ModuleNotFoundError: No module named 'six'

======================================================================
FAIL: test_d (t.T.test_d)
----------------------------------------------------------------------
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 5 tests in 0.001s

FAILED (failures=1, errors=3)
"""


def test_what_a_test_of_unittest_raises_is_its_own_failure_and_what_came_before_it_is_not():
    assert summary(UNITTEST) == counts(1, 2, 2, 0, 5)


@pytest.mark.parametrize(
    ("name", "trace", "failed"),
    [
        ("test_a", '  File "/w/t.py", line 6, in test_a\n    1 / 0\nZeroDivisionError', 1),
        ("test_a[1]", '  File "/w/t.py", line 6, in test_a\n    1 / 0\nZeroDivisionError', 1),
        ("test_a", '  File "/w/t.py", line 3, in setUp\n    test_a = 1 / 0\n', 0),
        ("test_a", '  File "/w/t.py", line 3, in test_ab\n', 0),
        ("adds", "java.lang.NullPointerException\n\tat shop.CartTest.adds(CartTest.java:12)\n", 1),
        ("adds(int)[2]", "java.lang.NullPointerException\n\tat shop.CartTest.adds(CartTest.java:12)\n", 1),
        ("adds", "java.lang.NullPointerException\n\tat shop.CartTest.setUp(CartTest.java:12)\n", 0),
        ("Adds", "System.Exception: no\n   at Shop.CartTests.Adds() in /w/CartTests.cs:line 12\n", 1),
        ("", "collection failure", 0),
    ],
)
def test_an_error_of_a_report_is_the_tests_own_failure_where_the_test_stands_in_its_trace(name, trace, failed):
    report = f'<testsuite><testcase classname="t" name="{name}"><error>{trace}</error></testcase></testsuite>'

    assert junit(report.encode()) == counts(0, failed, 1 - failed, 0, 1)


def test_the_gravest_of_several_outcomes_of_a_case_counts():
    report = b'<testsuite><testcase name="a"><failure/><skipped/></testcase></testsuite>'

    assert junit(report) == counts(0, 1, 0, 0, 1)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("--- FAIL: TestB (0.1s)\nFAIL\nexit status 1\nFAIL\ta/b\t0.1s\nFAIL\ta/c [build failed]\nFAIL",
         counts(0, 1, 1, 0, 2)),
        ("--- FAIL: TestB (0.1s)\npanic: no [recovered]\n\ngoroutine 1 [running]:\nexit status 2\nFAIL\ta/b\t0.1s",
         counts(0, 1, 1, 0, 2)),
        ("test result: FAILED. 1 passed; 1 failed; 0 ignored\nerror: could not compile `x` (test \"y\")",
         counts(1, 1, 1, 0, 3)),
        ("  ● Test suite failed to run\n\n    Cannot find module 'x'\n\nTests:       1 failed, 9 passed, 10 total",
         counts(9, 1, 1, 0, 11)),
        ("⎯⎯ Failed Suites 1 ⎯⎯\n\n FAIL  b.test.ts [ b.test.ts ]\nError: no package\n"
         "      Tests  1 failed | 9 passed (10)\n",
         counts(9, 1, 1, 0, 11)),
        ("  9 passing (20ms)\n  2 failing\n\n  1) a\n       b:\n  2) a\n       \"before each\" hook for \"c\":\n",
         counts(9, 1, 1, 0, 11)),
        ("    1) b\n    2) \"before each\" hook for \"c\"\n\n  9 passing (20ms)\n  2 failing\n\n  1) a\n       b:\n"
         "  2) \"before each\" hook for \"c\":\n", counts(9, 1, 1, 0, 11)),
        ("50% tests passed, 2 tests failed out of 4\n\nThe following tests FAILED:\n\t  1 - a (Failed)\n"
         "\t  2 - b (SEGFAULT)\n", counts(2, 1, 1, 0, 4)),
        ("not ok 1 - /w/b.test.js\n  ---\n  failureType: 'testCodeFailure'\n  exitCode: 1\n  ...\n"
         "not ok 2 - bad\n  ---\n  failureType: 'testCodeFailure'\n  error: '1 == 2'\n  ...\n"
         "    not ok 1 - x\n      ---\n      failureType: 'hookFailed'\n      error: 'hook'\n"
         "# tests 4\n# pass 1\n# fail 3\n# cancelled 0\n# skipped 0\n# todo 0", counts(1, 1, 2, 0, 4)),
        ("An error occurred while loading ./b_spec.rb.\n2 examples, 1 failure\n", counts(1, 1, 1, 0, 3)),
    ],
)  # fmt: skip
def test_what_could_not_be_built_loaded_or_prepared_is_an_error_and_no_failure_of_a_test(output, expected):
    assert summary(output) == expected


@pytest.mark.parametrize(
    "output",
    [
        "Ran 1 test in 0.1s\nOK" + "a" * 500_000,
        "Ran 1 test in 0.1s\nOK " + "a " * 300_000,
        "Ran 1 test in 0.1s\n" * 30_000 + "OK\n",
        "=" * 500_000 + " 1 passed in 0.1s",
        "1 passed " * 60_000,
        "  ● a › b\n" * 50_000,
        "--- PASS: " * 50_000,
        "test result: ok. 1 passed; " * 20_000,
        "ERROR: a (b)\n" * 40_000,
        "\x1b[" * 250_000,
        "Tests:" + " " * 500_000,
        "Tests: " + "1 a, " * 100_000,
        " " * 500_000 + "Tests  x",
        "Tests  " + "1 failed | " * 50_000,
        "ERROR: test_a (t.T)\n" + "\n" * 500_000 + "Ran 1 test in 0.1s\n\nFAILED (errors=1)",
        "Tests  1 passed (1)\n FAIL  " + " > " * 150_000,
        "100% tests passed, 0 tests failed out of 1\n 1/1 Test #1: " + " ..a" * 120_000,
        "100% tests passed, 0 tests failed out of 1\n\t 1 - " + " (" * 250_000,
        "test result: ok. 1 passed; 0 failed; 0 ignored\n   Doc-tests " + "a" * 500_000,
        "test result: ok. 1 passed; 0 failed; 0 ignored\n   Running a (" + "a-" * 250_000,
        "== FAILURES ==\n" * 40_000,
    ],
)
def test_hostile_output_is_counted_at_once(output: str):
    began_s = time.process_time()
    if seen := seen_in(output):
        with_unbuilt(seen.counts, output)
    coverage_totals(output)
    for pattern in FAILURES.values():
        list(re.finditer(pattern, output, re.MULTILINE))
    assert time.process_time() - began_s < 3
