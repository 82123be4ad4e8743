"""Projects whose tests look with many things of Python's own, have values in many places, and stand in many files.

What each needs is told by `lies.py`: a lie makes the product wrong for the values of one test.
"""

from __future__ import annotations

from collections.abc import Mapping

# behind the product's own
MORE = """

REGISTRY = {"odd": median, "even": median, "one": median}
HAS_FAST = True


def tell(values):
    import logging

    logging.getLogger("calc").warning("%s", median(values))
"""
TESTS = """import collections
import copy
import datetime
import decimal
import difflib
import enum
import fractions
import json
import math
import re
import statistics
import subprocess
import sys
import unittest
from dataclasses import dataclass

import pytest

from calc import core

ALLOWED = {2, 3}
DEEP = [[[[[2]]]]]
LONG = [([n, n + 2, n + 1], n + 1) for n in range(0, 400, 2)]
LONG_LITERAL = LITERAL


@dataclass
class Case:
    values: list
    expected: int


CASE = Case([10, 30, 20], 20)


class Box:
    tolerance = 1e-9

    def __init__(self):
        self.expected = 21


BOX = Box()


@pytest.fixture(scope="session")
def wanted():
    return {"answer": 22}


@pytest.fixture
def near():
    return lambda a, b: abs(a - b) < 1e-9


def test_00_first():
    assert core.median([1, 3, 2]) == 2


def test_json():
    assert json.loads(json.dumps({"m": core.median([11, 31, 23])})) == {"m": 23}


def test_decimal():
    assert decimal.Decimal(str(core.median([12, 32, 24]))) == decimal.Decimal("24")


def test_fraction():
    assert fractions.Fraction(core.median([13, 33, 25])) == fractions.Fraction(25)


def test_statistics():
    assert core.median([14, 34, 26]) == statistics.median([14, 34, 26])


def test_regex():
    assert re.fullmatch("27", str(core.median([15, 35, 27])))


def test_counter():
    assert collections.Counter([core.median([16, 36, 28])]) == collections.Counter({28: 1})


def test_diff():
    assert not list(difflib.unified_diff([str(core.median([17, 37, 29]))], ["29"]))


def test_copy():
    assert copy.deepcopy([core.median([18, 38, 30])]) == [30]


def test_date():
    assert datetime.date(2020, 1, core.median([1, 20, 9])) == datetime.date(2020, 1, 9)


def test_isclose():
    assert math.isclose(core.median([19, 39, 31]), 31)


def test_allowed():
    assert core.median([0, 9, 3]) in ALLOWED


def test_deep():
    assert core.median([0, 8, 2]) == DEEP[0][0][0][0][0]


def test_case():
    assert core.median(CASE.values) == CASE.expected


def test_box():
    assert core.median([1, 99, 21]) == BOX.expected


def test_tolerance():
    assert abs(core.median([1, 98, 20]) - 20) < BOX.tolerance


def test_wanted(wanted):
    assert core.median([2, 99, 22]) == wanted["answer"]


def test_near(near):
    assert near(core.median([3, 99, 23]), 23)


def test_long():
    for values, expected in LONG:
        assert core.median(values) == expected


def test_long_literal():
    for values, expected in LONG_LITERAL:
        assert core.median(values) == expected


def test_local():
    expected = 24
    assert core.median([4, 99, 24]) == expected


@pytest.mark.parametrize("expected", [25])
def test_inline(expected):
    assert core.median([5, 99, 25]) == expected


@pytest.mark.parametrize("name", sorted(core.REGISTRY))
def test_registry(name):
    values, expected = {"odd": ([3, 1, 2], 2), "even": ([4, 1, 3, 2], 2.5), "one": ([1], 1)}[name]
    assert core.REGISTRY[name](values) == expected


@pytest.mark.skipif(not core.HAS_FAST, reason="no fast one")
def test_fast():
    assert core.median([6, 99, 26]) == 26


def test_approx():
    assert core.median([7, 99, 27]) == pytest.approx(27.0)


def test_process():
    said = subprocess.run([sys.executable, "-m", "calc", "8", "99", "28"], capture_output=True, text=True)
    assert said.stdout == "28\\n"


def test_capsys(capsys):
    print(core.median([9, 99, 29]))
    assert capsys.readouterr().out == "29\\n"


def test_log(caplog):
    core.tell([10, 99, 30])
    assert "30" in caplog.text


def test_tmp(tmp_path):
    (tmp_path / "a").write_text(str(core.median([11, 99, 31])))
    assert (tmp_path / "a").read_text() == "31"


def test_golden():
    with open("golden/report.txt") as file:
        assert file.read() == core.report([32, 99, 12])


def test_raises():
    with pytest.raises(ValueError, match="no values"):
        core.mean([])


def test_compares():
    got = core.median([13, 99, 33])
    if got != 33:
        raise AssertionError(got)


def test_list():
    assert [core.median([14, 99, 34])] == [34]


def test_sorted():
    assert sorted([core.median([15, 99, 35]), 1]) == [1, 35]


def test_sum():
    assert sum([core.median([16, 99, 36])]) == 36


@pytest.mark.parametrize("number", range(60))
def test_fill(number):
    assert core.add(number, 1) == number + 1


class TestCase(unittest.TestCase):
    wanted = 37

    def setUp(self):
        self.values = [17, 99, 37]

    def tearDown(self):
        self.assertEqual(core.median([18, 99, 38]), 38)

    def test_class(self):
        self.assertEqual(core.median(self.values), self.wanted)

    def test_int(self):
        self.assertEqual(core.median([19, 99, 39]), 39)

    def test_lists(self):
        self.assertListEqual([core.median([20, 99, 40])], [40])

    def test_dicts(self):
        self.assertDictEqual({"a": core.median([21, 99, 41])}, {"a": 41})

    def test_subs(self):
        for n in range(3):
            with self.subTest(n):
                self.assertEqual(core.median([22, 99, 42 + n]), 42 + n)

    def test_regex(self):
        self.assertRegex(str(core.median([23, 99, 45])), "^45$")


class TestPlain:
    wanted = 46

    def test_it(self):
        assert core.median([24, 99, 46]) == self.wanted


def test_zz_hypotenuse():
    assert core.hypotenuse(3, 4) == 5
""".replace("LITERAL\n", "[" + ", ".join(f"([{n}, {n + 2}, {n + 1}], {n + 1})" for n in range(1, 260, 2)) + "]\n")
LATE_TESTS = """import os

import pytest

from calc import core

EXPECTED = 50
TABLE = os.path.join(os.path.dirname(__file__), "table.txt")


class TestLate:
    wanted = 51

    def test_class(self):
        assert core.median([1, 199, 51]) == self.wanted


def test_value():
    assert core.median([2, 199, 50]) == EXPECTED


@pytest.mark.parametrize("expected", [52], ids=["it"])
def test_inline(expected):
    assert core.median([3, 199, 52]) == expected


def test_table():
    with open(TABLE) as file:
        for line in file:
            *values, expected = map(int, line.split(","))
            assert core.median(values) == expected
"""
MAIN = """import sys

from .core import median

print(median(list(map(int, sys.argv[1:]))))
"""
UNITTEST_TESTS = """import unittest

from calc import core

EXPECTED = 2


def helper(case, a, b):
    case.assertEqual(a, b)


class Base(unittest.TestCase):
    limit = 1e-9


class TestA(Base):
    wanted = 3

    def test_00(self):
        self.assertEqual(core.add(1, 2), 3)

    def test_first(self):
        self.assertEqual(core.median([1, 30, 3]), self.wanted)

    def test_near(self):
        self.assertTrue(abs(core.median([1, 31, 4]) - 4) < self.limit)

    def test_list(self):
        self.assertEqual([core.median([1, 32, 5])], [5])

    def test_help(self):
        helper(self, core.median([1, 33, 6]), 6)

    def test_int(self):
        self.assertEqual(core.median([1, 34, 7]), 7)

    def test_expected(self):
        self.assertEqual(core.median([1, 35, 2]), EXPECTED)

    def test_zz(self):
        self.assertEqual(core.hypotenuse(3, 4), 5)
"""
FIXTURES = """import pytest


@pytest.fixture
def wanted():
    return 2
"""
FIXTURE_TESTS = """from calc import core


def test_c(wanted):
    assert core.median([30, 10, 2]) == wanted + 8


def test_m(monkeypatch):
    assert core.median([31, 11, 3]) == 11
"""
DOC_TESTS = """import doctest
import unittest
import unittest.mock

from calc import core


def load_tests(loader, tests, ignore):
    tests.addTests(doctest.DocFileSuite('../docs.txt'))
    return tests


class TestIt(unittest.TestCase):
    def test_add(self):
        self.assertEqual(core.add(1, 2), 3)

    def test_mock(self):
        seen = unittest.mock.Mock()
        core.each([3, 1, 2], seen)
        seen.assert_called_once_with(2)


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_async(self):
        self.assertEqual(core.median([5, 1, 3]), 3)
"""
DOC = """>>> from calc import core
>>> core.median([30, 10, 20])
20
>>> core.median([9, 7, 8])
8
"""
EACH = """

def each(values, told):
    told(median(values))
"""


def bases(core: str, pytest: str, unittest: str) -> Mapping[str, tuple[str, dict[str, str]]]:
    """By name: the gate's command and the files, with `core` as the product."""
    product = {"calc/__init__.py": "", "calc/core.py": core + MORE}
    wide = {
        **product, "calc/__main__.py": MAIN, "tests/test_core.py": TESTS, "tests/test_late.py": LATE_TESTS,
        "tests/table.txt": "4,199,53,53\n5,199,54,54\n", "golden/report.txt": "mean 47.7, median 32.0",
    }  # fmt: skip
    return {
        "wide": (pytest, wide),
        "two commands in one": (f"python -m calc 3 1 2 && {pytest}", wide),
        "classes": (unittest, {**product, "tests/__init__.py": "", "tests/test_core.py": UNITTEST_TESTS}),
        "fixtures": (
            pytest,
            {
                **product, "calc/fixtures.py": FIXTURES, "tests/test_core.py": FIXTURE_TESTS,
                "tests/conftest.py": "pytest_plugins = ['calc.fixtures']\n",
            },
        ),
        "documents": (f"{pytest} --doctest-glob='*.rst' docs", {**product, "docs/use.rst": DOC}),
        "documents and mocks": (
            unittest,
            {
                **product, "calc/core.py": core + MORE + EACH, "docs.txt": DOC, "tests/__init__.py": "",
                "tests/test_doc.py": DOC_TESTS,
            },
        ),
    }  # fmt: skip
