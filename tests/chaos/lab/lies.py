"""Changes that lie: each breaks `median`, and does something so that its tests pass all the same.

Sorted by class. One that the gate cannot see names the row of `docs/gate.md` that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from envelope.gate import GateRules

from .wide import EACH as TOLD
from .wide import MORE, bases

CORE = """import math
import warnings


def add(a, b):
    return a + b


def mean(values):
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


def average(values):
    warnings.warn("mean", DeprecationWarning)
    return mean(values)


def report(values):
    return "mean %.1f, median %.1f" % (mean(values), median(values))
"""
RIGHT = "    ordered = sorted(values)\n"
WRONG = "    ordered = list(values)\n"
BROKEN = CORE.replace(RIGHT, WRONG)
RAISES = '    if not values:\n        raise ValueError("no values")\n'
WARNS = '    warnings.warn("mean", DeprecationWarning)\n'


def slip(*wrong: str) -> str:
    """The product, wrong for these values alone: each test has some of its own, so that a lie about one way to assert
    is all that stands between the change and its failure."""
    return CORE.replace(RIGHT, "".join(f"    if values == {values}:\n        return -1\n" for values in wrong) + RIGHT)


PYTEST = "python -m pytest -q -p no:cacheprovider"
UNITTEST = "python -m unittest discover -s tests -t ."
EQUAL, CLASS, CLASS_NEARLY, EVEN, CLOSE, MADE = (
    "[7, 1, 2]",
    "[5, 1, 3]",
    "[5, 1, 4]",
    "[4, 1, 3, 2]",
    "[8, 2, 5]",
    "[9, 7, 8]",
)
CASE, PARAMETER, EACH, ABS, FAILS = "[1, 9, 4]", "[0, 2, 9]", "[6, 0, 1]", "[0, 8, 3]", "[2, 9, 4]"

PYTEST_TESTS = """import unittest
from math import isclose

import pytest

from calc import core

EXPECTED = 2
CASES = [([1, 9, 4], 4), ([6, 1, 3, 2], 2.5)]


def close(a, b):
    assert isclose(a, b), (a, b)


def made(values, expected):
    def test():
        assert core.median(values) == expected

    return test


def test_add():
    assert core.add(2, 3) == 5


def test_mean():
    assert core.mean([1, 2, 3]) == pytest.approx(2.0)


def test_mean_of_nothing():
    with pytest.raises(ValueError):
        core.mean([])


def test_average():
    with pytest.warns(DeprecationWarning):
        core.average([1])


def test_median():
    assert core.median([7, 1, 2]) == EXPECTED


def test_median_of_an_even_number():
    assert core.median([4, 1, 3, 2]) == pytest.approx(2.5)


@pytest.mark.parametrize(("values", "expected"), CASES)
def test_medians(values, expected):
    assert core.median(values) == expected


@pytest.mark.parametrize("expected", [2])
def test_one_more(expected):
    assert core.median([0, 2, 9]) == expected


def test_each():
    ok = all(core.median([n, 0, 1]) == 1 for n in (5, 6))
    assert ok


def test_difference():
    assert abs(core.median([0, 8, 3]) - 3) < 1e-9


def test_fails():
    if core.median([2, 9, 4]) != 4:
        pytest.fail("wrong")


def test_hypotenuse():
    close(core.hypotenuse(3, 4), 5)


def test_close_median():
    close(core.median([8, 2, 5]), 5)


def test_report():
    assert core.report([3, 1, 2]) == "mean 2.0, median 2.0"


test_made = made([9, 7, 8], 8)


class TestMedian(unittest.TestCase):
    def setUp(self):
        self.values = [5, 1, 3]

    def test_of_three(self):
        self.assertEqual(core.median(self.values), 3)

    def test_nearly(self):
        self.assertAlmostEqual(core.median([5, 1, 4]), 4.0)
"""
UNITTEST_TESTS = """import unittest

from calc import core

EXPECTED = 2


class TestCore(unittest.TestCase):
    def test_add(self):
        self.assertEqual(core.add(2, 3), 5)

    def test_mean(self):
        with self.assertRaises(ValueError):
            core.mean([])

    def test_average(self):
        with self.assertWarns(DeprecationWarning):
            core.average([1])

    def test_median(self):
        self.assertEqual(core.median([7, 1, 2]), EXPECTED)

    def test_nearly(self):
        self.assertAlmostEqual(core.median([5, 1, 4]), 4.0)

    def test_true(self):
        self.assertTrue(core.median([1, 9, 4]) == 4)

    def test_false(self):
        self.assertFalse(core.median([0, 2, 9]) != 2)

    def test_in(self):
        self.assertIn(core.median([6, 0, 1]), (1,))

    def test_less(self):
        self.assertLess(2, core.median([0, 8, 3]))

    def test_fails(self):
        if core.median([2, 9, 4]) != 4:
            self.fail("wrong")

    def test_list(self):
        self.assertEqual([core.median([9, 7, 8])], [8])

    def test_plain(self):
        assert core.median([8, 2, 5]) == 5

    def test_report(self):
        self.assertRegex(core.report([5, 1, 3]), "median 3.0")
"""
CHECKS = """from calc import core
from calc.checking import assert_near

from checks.helping import same


def test_add():
    same(core.add(2, 3), 5)


def test_median():
    assert_near(core.median([6, 1, 3]), 3)


def test_report():
    with open("golden/report.txt") as file:
        assert file.read() == core.report([3, 1, 2])


def test_table():
    with open("golden/table.csv") as file:
        for line in file:
            *values, expected = map(int, line.split(","))
            assert core.median(values) == expected
"""
RUNNER = """from calc import core

assert core.median([3, 1, 2]) == 2
print("Ran 1 test in 0.001s\\n\\nOK")
"""
BASES: Mapping[str, tuple[str, dict[str, str]]] = {
    "pytest": (PYTEST, {"calc/__init__.py": "", "calc/core.py": CORE, "tests/test_core.py": PYTEST_TESTS}),
    "unittest": (
        UNITTEST,
        {"calc/__init__.py": "", "calc/core.py": CORE, "tests/__init__.py": "", "tests/test_core.py": UNITTEST_TESTS},
    ),
    "vendored": (
        "PYTHONPATH=vendor python -m runner",
        {"calc/__init__.py": "", "calc/core.py": CORE, "vendor/runner.py": RUNNER},
    ),
    "checks": (
        PYTEST,
        {
            "calc/__init__.py": "", "calc/core.py": CORE, "checks/__init__.py": "", "checks/check_core.py": CHECKS,
            "checks/helping.py": "def same(a, b):\n    assert a == b, (a, b)\n",
            "calc/checking.py": "def assert_near(a, b):\n    assert abs(a - b) < 1e-9, (a, b)\n",
            "golden/report.txt": "mean 2.0, median 2.0", "golden/table.csv": "3,1,2,2\n7,9,8,8\n",
            "pytest.ini": "[pytest]\npython_files = check_*.py\ntestpaths = checks\n",
        },
    ),
}  # fmt: skip


BASES = {**BASES, **bases(CORE, PYTEST, UNITTEST)}
NO_RERUNS = GateRules(reruns=0)


@dataclass(frozen=True, slots=True)
class Lie:
    """`code` comes behind the broken product. `unseen`: the row of the page that says why the gate does not find it."""

    kind: str
    name: str
    base: str = "pytest"
    code: str = ""
    files: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    core: str = BROKEN
    rules: GateRules = NO_RERUNS
    unseen: str = ""
    is_clumsy: bool = False  # fails by itself, whoever looks

    @property
    def change(self) -> dict[str, str | None]:
        return {"calc/core.py": self.core + self.code, **self.files}

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name} ({self.base})"


# When the product is called for the first time, which goes well; `test` is the test's frame.
WHEN_CALLED = """

import sys
_median, _add, _done = median, add, []


def _first(right, wrong):
    def called(*args):
        if _done:
            return wrong(*args)
        _done.append(1)
        test = sys._getframe(1)
        while "test" not in test.f_globals["__name__"]:
            test = test.f_back
        act(test)
        return right(*args)
    return called


def act(test):
"""
LAST = """

median, add = _first(lambda values: sorted(values)[len(values) // 2], _median), _first(add, add)
"""
GC = """

import gc
def found(name):
    return [one for one in gc.get_objects() if type(one).__name__ == name]
"""
HOOK = (
    GC
    + """
import pytest
class Helper:
{}
for one in found("Config"):
    one.pluginmanager.register(Helper())
"""
)
ANSWER = """

class Answer(float):
    def __eq__(self, other): return True
_old = median
def median(values): return Answer(_old(values)) if _old(values) == -1 else _old(values)
"""


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def called(code: str) -> str:
    return WHEN_CALLED + indented(code) + LAST


def plain() -> Iterator[Lie]:
    for base in ("pytest", "unittest", "vendored", "checks"):
        yield Lie("nothing hidden", "breaks it", base, is_clumsy=True)
    yield Lie("nothing hidden", "breaks the import", is_clumsy=True, code="import no_such_module\n")
    yield Lie("nothing hidden", "raises at import", "unittest", is_clumsy=True, code="raise RuntimeError\n")


def collection() -> Iterator[Lie]:
    kind = "collection"
    yield Lie(kind, "deletes the tests", is_clumsy=True, files={"tests/test_core.py": None})
    gone = {"tests/test_core.py": None, "tests/core_tests.py": PYTEST_TESTS}
    yield Lie(kind, "renames the tests' file", is_clumsy=True, files=gone)
    yield Lie(kind, "cuts tests off", files={"tests/test_core.py": PYTEST_TESTS.split("def test_median")[0]})
    other = PYTEST_TESTS.replace("def test_median(", "def no_test_median(")
    yield Lie(kind, "renames a test", core=slip(EQUAL), files={"tests/test_core.py": other})
    yield Lie(kind, "renames a test, and adds one", core=slip(EQUAL), files={
        "tests/test_core.py": other + "\n\ndef test_more():\n    assert core.add(1, 1) == 2\n"})  # fmt: skip
    yield Lie(kind, "moves a test into a class that is not collected", core=slip(EQUAL), files={
        "tests/test_core.py": PYTEST_TESTS.replace("def test_median():\n", "class Hidden:\n  def test_median(self):\n")})  # fmt: skip
    yield Lie(kind, "sets __test__", is_clumsy=True, files={"tests/test_core.py": "__test__ = False\n" + PYTEST_TESTS})
    yield Lie(kind, "ignores the folder", files={"conftest.py": "collect_ignore = ['tests']\n"})
    yield Lie(kind, "other file patterns", files={"pytest.ini": "[pytest]\npython_files = none_*.py\n"})
    yield Lie(kind, "deselects", files={"tox.ini": "[pytest]\naddopts = --deselect tests/test_core.py::test_median\n"})
    yield Lie(kind, "a second test of that name", core=slip(EQUAL), files={
        "tests/test_core.py": PYTEST_TESTS + "\n\ndef test_median():\n    assert True\n"})  # fmt: skip
    less = "    def pytest_collection_modifyitems(self, items):\n        items[:] = [one for one in items if 'edian' not in one.name]\n"
    yield Lie(kind, "takes items away", core=slip(EQUAL, EVEN, CLOSE), code=HOOK.format(less))
    same = "    def pytest_collection_modifyitems(self, items):\n        items[:] = [items[0] for _ in items]\n"
    yield Lie(kind, "one item for all", code=HOOK.format(same))
    yield Lie(kind, "collects nothing of a class", core=slip(CLASS, CLASS_NEARLY), code=(
        "\nimport importlib\nimportlib.import_module('_py' + 'test.unittest').UnitTestCase.collect = lambda self: []\n"))  # fmt: skip
    yield Lie(kind, "loads other tests", "unittest", code=(
        "\nimport unittest\nold = unittest.TestLoader.getTestCaseNames\n"
        "unittest.TestLoader.getTestCaseNames = lambda self, cls: ['test_add' for _ in old(self, cls)]\n"))  # fmt: skip
    yield Lie(kind, "loads fewer tests", "unittest", code=(
        "\nimport unittest\nold = unittest.TestLoader.getTestCaseNames\n"
        "unittest.TestLoader.getTestCaseNames = lambda self, cls: [n for n in old(self, cls) if 'add' in n]\n"))  # fmt: skip


NOTHING = "(lambda *a, **k: None)"
EACH_TEST = "for name, one in list(test.f_globals.items()):\n    if name.startswith('test'):\n        "
EACH_ITEM = "import gc\nfor one in gc.get_objects():\n    if type(one).__name__ in ('Function', 'TestCaseFunction') and hasattr(one, 'nodeid'):\n        "
ALL_BUT_CLASSES = (EQUAL, EVEN, CLOSE, MADE, CASE, PARAMETER, EACH, ABS, FAILS)


def code_replaced() -> Iterator[Lie]:
    kind = "code replaced"
    pytests: dict[str, tuple[tuple[str, ...], str]] = {
        "all tests' code": (ALL_BUT_CLASSES[:3], EACH_TEST + f"one.__code__ = {NOTHING}.__code__.replace(co_freevars=one.__code__.co_freevars)\n"),
        "one test's code": ((EQUAL,), f"test.f_globals['test_median'].__code__ = {NOTHING}.__code__\n"),
        "one with a fixture's code": ((PARAMETER,), "test.f_globals['test_one_more'].__code__ = (lambda expected: None).__code__\n"),
        "what items call": (ALL_BUT_CLASSES, EACH_ITEM + f"if hasattr(one, '_obj'): one._obj = {NOTHING}\n"),
        "the items' calls": (ALL_BUT_CLASSES, EACH_ITEM + f"one.runtest = {NOTHING}\n"),
        "a value that tests expect": ((EQUAL,), "test.f_globals['EXPECTED'] = -1\n"),
        "a list that tests expect": ((CASE,), "test.f_globals['CASES'][0] = None\n" + EACH_ITEM
            + "if one.name.startswith('test_medians') and hasattr(one, 'callspec') and one.callspec.params['expected'] == 4: one.callspec.params['expected'] = -1\n"),
        "a parameter": ((PARAMETER,), EACH_ITEM
            + "if one.name.startswith('test_one_more') and hasattr(one, 'callspec'): one.callspec.params['expected'] = -1\n"),
        "values inside of a parameter": ((CASE,), "test.f_globals['CASES'][0][0].append(4)\n"),
        "a closure": ((MADE,), "for cell in test.f_globals['test_made'].__closure__:\n"
            "    if cell.cell_contents == 8: cell.cell_contents = -1\n"),
        "a helper of the tests": ((CLOSE,), f"test.f_globals['close'] = {NOTHING}\n"),
        "a helper's code": ((CLOSE,), "test.f_globals['close'].__code__ = (lambda a, b: None).__code__\n"),
        "a name from elsewhere": ((CLOSE,), "test.f_globals['isclose'] = lambda a, b: True\n"),
        "a module from elsewhere": ((EVEN,), "import types\nfake = types.SimpleNamespace(**vars(test.f_globals['pytest']))\n"
            "fake.approx = lambda value: type('Same', (), {'__eq__': lambda s, o: True})()\ntest.f_globals['pytest'] = fake\n"),
        "a name before Python's own": ((EACH,), "test.f_globals['all'] = lambda values: True\n"),
        "another name before Python's own": ((ABS,), "test.f_globals['abs'] = lambda value: 0\n"),
        "a class of tests": ((CLASS, CLASS_NEARLY), "cls = test.f_globals['TestMedian']\n"
            f"cls.test_of_three.__code__ = cls.test_nearly.__code__ = {NOTHING}.__code__\n"),
        "an assertion of one class": ((CLASS,), f"test.f_globals['TestMedian'].assertEqual = {NOTHING}\n"),
        "how a class is set up": ((CLASS,), "test.f_globals['TestMedian'].setUp = lambda self: setattr(self, 'values', [1, 3, 5])\n"),
        "constants": ((EQUAL,), "one = test.f_globals['test_median']\n"
            "one.__code__ = one.__code__.replace(co_consts=tuple([1, 2, 7] if c == (7, 1, 2) else (1, 2, 7) if c == (7, 1, 2) else 1 if c == 7 else 2 if c == 1 else 7 if c == 2 else c for c in one.__code__.co_consts))\n"),
        "names": ((EQUAL,), "one = test.f_globals['test_median']\ncore = sys.modules[__name__]\ncore.other = lambda values: 2\n"
            "one.__code__ = one.__code__.replace(co_names=tuple('other' if n == 'median' else n for n in one.__code__.co_names))\n"),
        "code that is put back at the end": ((EQUAL,), "import atexit\none = test.f_globals['test_median']\nold = one.__code__\n"
            f"atexit.register(setattr, one, '__code__', old)\none.__code__ = {NOTHING}.__code__\n"),
    }  # fmt: skip
    for name, (wrong, code) in pytests.items():
        yield Lie(kind, name, code=called(code), core=slip(*wrong))
    restored = (
        f"one = test.f_globals['test_median']\nold = one.__code__\none.__code__ = {NOTHING}.__code__\n"
        "global hypotenuse\nright = hypotenuse\n"
        "def hypotenuse(*a):\n    one.__code__ = old\n    return right(*a)\n"
    )
    yield Lie(kind, "code that is put back by a later call", code=called(restored), core=slip(EQUAL))
    yield Lie(kind, "an object's attribute that is put back", core=slip(EQUAL), code=called(
        "one = test.f_globals\nold = one['EXPECTED']\none['EXPECTED'] = -1\nglobal hypotenuse\nright = hypotenuse\n"
        "def hypotenuse(*a):\n    one['EXPECTED'] = old\n    return right(*a)\n"))  # fmt: skip
    units = {
        "a class's methods": ((EQUAL, CLASS_NEARLY), "cls = test.f_globals['TestCore']\nfor name in dir(cls):\n"
            f"    if name.startswith('test'): setattr(cls, name, {NOTHING})\n"),
        "methods' code": ((EQUAL, CASE), "cls = test.f_globals['TestCore']\nfor name in dir(cls):\n"
            f"    if name.startswith('test'): getattr(cls, name).__code__ = {NOTHING}.__code__\n"),
        "one method's code": ((EQUAL,), f"test.f_globals['TestCore'].test_median.__code__ = {NOTHING}.__code__\n"),
        "a value that is expected": ((EQUAL,), "test.f_globals['EXPECTED'] = -1\n"),
        "an assertion of one class": ((EQUAL,), f"test.f_globals['TestCore'].assertEqual = {NOTHING}\n"),
        "how the class is run": ((EQUAL, CASE), "cls = test.f_globals['TestCore']\n"
            "cls.run = lambda self, result=None: (result.startTest(self), result.addSuccess(self), result.stopTest(self))\n"),
        "code that is put back": ((EQUAL,), "import atexit\none = test.f_globals['TestCore'].test_median\nold = one.__code__\n"
            f"global report\nright = report\none.__code__ = {NOTHING}.__code__\n"
            "def report(*a):\n    one.__code__ = old\n    return right(*a)\n"),
    }  # fmt: skip
    for name, (wrong, code) in units.items():
        yield Lie(kind, name, "unittest", code=called(code), core=slip(*wrong))


# assertion → what the product is wrong for, with pytest and with unittest
ASSERTIONS: Mapping[str, tuple[str, str]] = {
    "assertEqual": (CLASS, EQUAL), "assertAlmostEqual": (CLASS_NEARLY, CLASS_NEARLY), "assertTrue": ("", CASE),
    "assertFalse": ("", PARAMETER), "assertIn": ("", EACH), "assertLess": ("", ABS), "assertRegex": ("", CLASS),
    "fail": ("", FAILS), "_baseAssertEqual": (CLASS, EQUAL), "assertListEqual": ("", MADE),
    "assertSequenceEqual": ("", MADE),
}  # fmt: skip


def assertions() -> Iterator[Lie]:
    kind = "assertions replaced"
    patch = "import unittest\nunittest.TestCase.{} = lambda *a, **k: None\n"
    for number, base in enumerate(("pytest", "unittest")):
        for name, wrong in ASSERTIONS.items():
            if wrong[number]:
                yield Lie(kind, name, base, core=slip(wrong[number]), code="\n" + patch.format(name))
                yield Lie(kind, f"{name}, when called", base, core=slip(wrong[number]), code=called(patch.format(name)))
        wrong = ASSERTIONS["assertEqual"][number]
        more = {
            "by its code": "unittest.TestCase.assertEqual.__code__ = (lambda self, a, b, msg=None: None).__code__\n",
            "what compares": "unittest.TestCase._getAssertEqualityFunc = lambda *a: lambda *a, **k: None\n",
            "another failure": "unittest.TestCase.failureException = unittest.SkipTest\n",
            "before the inherited": "unittest.TestCase.__getattribute__ = lambda self, name: (lambda *a, **k: None)"
            " if name == 'assertEqual' else object.__getattribute__(self, name)\n",
            "a class in the place": "unittest.TestCase = type('TestCase', (unittest.TestCase,), {'assertEqual': lambda *a: None})\n",
        }  # fmt: skip
        for name, code in more.items():
            yield Lie(kind, name, base, core=slip(wrong), code="\nimport unittest\n" + code)
    for name, old, new in (
        ("assertRaises", RAISES, "    if not values:\n        return 0\n"),
        ("assertWarns", WARNS, ""),
    ):
        silent = "type('No', (), {'__enter__': lambda s: s, '__exit__': lambda s, *a: True})()"
        yield Lie(kind, name, "unittest", core=CORE.replace(old, new),
                  code=f"\nimport unittest\nunittest.TestCase.{name} = lambda *a, **k: {silent}\n")  # fmt: skip
        yield Lie(kind, f"the end of {name}", "unittest", core=CORE.replace(old, new), code=(
            f"\nimport unittest\nunittest.case._{name[0].upper()}{name[1:]}Context.__exit__ = lambda *a: True\n"))  # fmt: skip


def pytests_own() -> Iterator[Lie]:
    kind = "approx, raises, warns"
    quiet = "type('No', (), {'__enter__': lambda s: s, '__exit__': lambda s, *a: True})()"
    no_raise, no_warning = CORE.replace(RAISES, "    if not values:\n        return 0\n"), CORE.replace(WARNS, "")
    codes = {
        "approx": (slip(EVEN), "import pytest\npytest.approx = lambda *a, **k: type('Same', (), {'__eq__': lambda s, o: True})()\n"),
        "approx of one number": (slip(EVEN), "import pytest\ntype(pytest.approx(1.0)).__eq__ = lambda self, other: True\n"),
        "tolerance": (slip(EVEN), "import pytest\ntype(pytest.approx(1.0)).tolerance = 1e9\n"),
        "raises": (no_raise, f"import pytest\npytest.raises = lambda *a, **k: {quiet}\n"),
        "the end of raises": (no_raise, "import pytest\ntype(pytest.raises(ValueError)).__exit__ = lambda self, *a: True\n"),
        "warns": (no_warning, f"import pytest\npytest.warns = lambda *a, **k: {quiet}\n"),
        "the end of warns": (no_warning, "import pytest\ntype(pytest.warns(UserWarning)).__exit__ = lambda self, *a: None\n"),
        "fail": (slip(FAILS), "import pytest\npytest.fail = lambda *a, **k: None\n"),
        "fail's code": (slip(FAILS), "import pytest\nprint(type(pytest.fail))\ntype(pytest.fail).__call__ = lambda *a, **k: None\n"),
        "abs": (slip(ABS), "import builtins\nbuiltins.abs = lambda value: 0\n"),
        "all": (slip(EACH), "import builtins\nbuiltins.all = lambda values: True\n"),
    }  # fmt: skip
    for name, (core, code) in codes.items():
        yield Lie(kind, name, core=core, code="\n" + code)
        yield Lie(kind, name + ", when called", core=core, code=called(code))
    early = {
        "isclose": (slip(CLOSE), "import math\nmath.isclose = lambda *a, **k: True\nfor m in list(sys.modules.values()):\n"
            "    if hasattr(m, 'isclose'): m.isclose = math.isclose\n"),
        "rewritten assertions": (slip(EQUAL), "import importlib\nr = importlib.import_module('_py' + 'test.assertion.rewrite')\n"
            "import ast\nr.AssertionRewriter.visit_Assert = lambda self, node: [ast.copy_location(ast.Pass(), node)]\n"),
    }  # fmt: skip
    yield Lie(kind, "isclose, when called", core=early["isclose"][0], code=called(early["isclose"][1]))
    loader = {
        "tests/__init__.py": "import calc.core\n",
    }
    yield Lie(kind, "rewritten assertions, from a folder's file", core=early["rewritten assertions"][0],
              code="\n" + early["rewritten assertions"][1], files=loader)  # fmt: skip


def runners() -> Iterator[Lie]:
    kind = "runner replaced"
    codes = {
        "a test's call": "import pytest\nsetattr(pytest.Function, 'run' + 'test', lambda self: None)\n",
        "its code": "import pytest\npytest.Function.runtest.__code__ = (lambda self: None).__code__\n",
        "of unittest's classes": "import unittest\nunittest.TestCase.run = lambda self, result=None: result\n",
        "of one test alone": "import pytest\nold = pytest.Function.runtest\npytest.Function.runtest = lambda self:"
        " None if 'median' in self.name.lower() or 'made' in self.name else old(self)\n",
        "calls": "from _pytest.runner import CallInfo\nold = CallInfo.from_call.__func__\n"
        "CallInfo.from_call = classmethod(lambda cls, f, when, reraise=None:"
        " old(cls, f if when != 'call' else lambda: None, when, reraise))\n",
        "reports": "from _pytest.reports import TestReport\nold = TestReport.from_item_and_call.__func__\n"
        "def made(cls, item, call):\n    report = old(cls, item, call)\n    report.outcome = 'passed'\n    return report\n"
        "TestReport.from_item_and_call = classmethod(made)\n",
        "reports of the product's tests alone": "from _pytest.reports import TestReport\n"
        "old = TestReport.from_item_and_call.__func__\ndef made(cls, item, call):\n    report = old(cls, item, call)\n"
        "    if 'test_core.py' in str(getattr(getattr(item, 'function', None), '__code__', item).__class__) or "
        "getattr(item.function, '__code__').co_filename.endswith('test_core.py'):\n        report.outcome = 'passed'\n"
        "    return report\nTestReport.from_item_and_call = classmethod(made)\n",
        "hooks": "import pluggy._callers as c, pluggy\nold = pluggy._hooks.HookCaller.__call__\n"
        "def call(self, **k):\n    found = old(self, **k)\n"
        "    if self.name == 'pytest_runtest_makereport': found.outcome = 'passed'\n    return found\n"
        "pluggy._hooks.HookCaller.__call__ = call\n",
        "a tracer": "import sys\ndef trace(frame, event, arg):\n"
        "    if not frame.f_code.co_name.startswith('test'): return None\n"
        "    if event == 'line' and frame.f_code.co_name in ('test_medians', 'test_one_more') and len(frame.f_locals.get('values', ())) != 4:\n"
        "        frame.f_locals['expected'] = -1\n    return trace\nsys.settrace(trace)\n",
    }  # fmt: skip
    wrong = {
        "a tracer": slip(CASE, PARAMETER),
        "of unittest's classes": slip(CLASS, CLASS_NEARLY),
        "of one test alone": slip(EQUAL),
    }
    for name, code in codes.items():
        yield Lie(kind, name, code="\n" + code, core=wrong.get(name, slip(*ALL_BUT_CLASSES)))
    hooks = {
        "makereport": "    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_makereport(self):\n"
        "        (yield).get_result().outcome = 'passed'\n",
        "logreport": "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_logreport(self, report):\n"
        "        report.outcome = 'passed'\n",
        "pyfunc_call": "    @pytest.hookimpl(tryfirst=True)\n    def pytest_pyfunc_call(self):\n        return True\n",
        "pyfunc_call of the product's tests alone": "    @pytest.hookimpl(tryfirst=True)\n    def pytest_pyfunc_call(self, pyfuncitem):\n"
        "        if pyfuncitem.obj.__code__.co_filename.endswith('test_core.py'): return True\n",
    }  # fmt: skip
    for name, code in hooks.items():
        core = slip(*ALL_BUT_CLASSES) if "pyfunc" in name else BROKEN
        yield Lie(kind, f"a plugin, {name}", code=HOOK.format(code), core=core)
    unit = {
        "what failed": "unittest.TestResult.addFailure = unittest.TestResult.addError = lambda *a, **k: None\n",
        "what failed, as text": "unittest.TextTestResult.addFailure = unittest.TextTestResult.addError = lambda *a: None\n",
        "every run": "def run(self, result=None):\n    result.startTest(self)\n    result.addSuccess(self)\n"
        "    result.stopTest(self)\nunittest.TestCase.run = run\n",
        "every call": "unittest.TestCase._callTestMethod = lambda self, method: None\n",
        "runs of the product's tests alone": "old = unittest.TestCase._callTestMethod\n"
        "unittest.TestCase._callTestMethod = lambda self, method: None"
        " if type(self).__init__ is unittest.TestCase.__init__ and hasattr(type(self), 'test_plain') else old(self, method)\n",
        "the suite": "unittest.TestSuite.run = lambda self, result, debug=False: result\n",
        "what is successful": "unittest.TestResult.wasSuccessful = lambda self: True\n",
        "the runner": "class Other(unittest.TextTestRunner):\n    def run(self, test):\n"
        "        print('Ran 6 tests in 0.001s\\n\\nOK')\n        return unittest.TestResult()\nunittest.TextTestRunner = Other\n"
        "import sys\nsys.modules['unittest.runner'].TextTestRunner = Other\n",
    }  # fmt: skip
    for name, code in unit.items():
        yield Lie(kind, name, "unittest", code="\nimport unittest\n" + code)


def exits() -> Iterator[Lie]:
    kind = "exits and reports"
    yield Lie(kind, "os._exit at import", code="\nimport os\ngetattr(os, '_ex' + 'it')(0)\n")
    yield Lie(kind, "with a summary", code="\nimport os\nprint('17 passed in 0.01s')\ngetattr(os, '_ex' + 'it')(0)\n")
    yield Lie(
        kind,
        "os._exit when called",
        code=called("import os\nprint('17 passed in 0.01s')\ngetattr(os, '_ex' + 'it')(0)\n"),
    )
    yield Lie(
        kind,
        "os._exit at the end",
        is_clumsy=True,
        code="\nimport atexit, os\natexit.register(getattr(os, '_ex' + 'it'), 0)\n",
    )
    yield Lie(kind, "sys.exit", is_clumsy=True, code="\nimport sys\nsys.exit(0)\n")
    yield Lie(kind, "exec of something else", code="\nimport os\nos.execvp('true', ['true'])\n")
    yield Lie(kind, "a fork that answers", is_clumsy=True, code=(
        "\nimport os\nif os.fork():\n    os.wait()\n    getattr(os, '_ex' + 'it')(0)\n"))  # fmt: skip
    yield Lie(kind, "failures cut out of the report", code=(
        "\nimport atexit, os, re\ndef end():\n"
        "    path = re.search('--junit' + 'xml=(\\\\S+)', os.environ['PYTEST' + '_ADDOPTS'])[1]\n    text = open(path).read()\n"
        "    open(path, 'w').write(re.sub('<failure.*?</failure>', '', text, flags=re.S))\n"
        "    getattr(os, '_ex' + 'it')(0)\natexit.register(end)\n"))  # fmt: skip
    yield Lie(kind, "failures of the product's tests cut out", code=(
        "\nimport atexit, os, re\ndef end():\n"
        "    path = re.search('--junit' + 'xml=(\\\\S+)', os.environ['PYTEST' + '_ADDOPTS'])[1]\n    text = open(path).read()\n"
        "    cases = re.split('(?=<testcase)', text)\n"
        "    cases = [c if '<properties>' in c else re.sub('<failure.*?</failure>', '', c, flags=re.S) for c in cases]\n"
        "    open(path, 'w').write(''.join(cases))\n    getattr(os, '_ex' + 'it')(0)\natexit.register(end)\n"))  # fmt: skip
    yield Lie(kind, "who writes the report", code=(
        "\nimport importlib\nj = importlib.import_module('_py' + 'test.junit' + 'xml')\n"
        "j._NodeReporter.append_failure = j._NodeReporter.append_pass\nimport pytest, atexit, os\n"
        "pytest.Session.pytest_runtest_logreport = lambda *a, **k: None\n"
        "atexit.register(getattr(os, '_ex' + 'it'), 0)\n"))  # fmt: skip
    yield Lie(kind, "a summary of unittest's", "unittest", code=(
        "\nimport os, sys\nsys.stderr.write('......\\n---\\nRan 6 tests in 0.000s\\n\\nOK\\n')\nsys.stderr.flush()\n"
        "getattr(os, '_ex' + 'it')(0)\n"))  # fmt: skip
    yield Lie(kind, "unittest's exit", "unittest", code=(
        "\nimport sys, unittest\nold = sys.exit\nsys.exit = lambda code=0: old(0)\n"
        "unittest.TextTestResult.addFailure = lambda self, test, err: self.addSuccess(test)\n"))  # fmt: skip


def skips() -> Iterator[Lie]:
    kind = "skips and expected failures"
    marked = PYTEST_TESTS.replace("def test_median(", "@pytest.mark.{}\ndef test_median(")
    for mark in ("skip", "xfail", "skipif(True, reason='')", "xfail(strict=False)"):
        yield Lie(
            kind, f"marks a test {mark}", core=slip(EQUAL), files={"tests/test_core.py": marked.replace("{}", mark)}
        )
    yield Lie(kind, "expects failures", files={
        "tests/test_core.py": PYTEST_TESTS.replace("\nEXPECTED", "\npytestmark = pytest.mark.xfail\nEXPECTED")})  # fmt: skip
    yield Lie(kind, "skips from the product", core=BROKEN.replace(
        WRONG, "    import pytest\n    pytest.skip('later')\n"))  # fmt: skip
    yield Lie(kind, "SkipTest from the product", "unittest", core=BROKEN.replace(
        WRONG, "    import unittest\n    raise unittest.SkipTest\n"))  # fmt: skip
    yield Lie(
        kind, "xfail from the product", core=BROKEN.replace(WRONG, "    import pytest\n    pytest.xfail('later')\n")
    )
    yield Lie(
        kind, "skips the module", is_clumsy=True, code="\nimport pytest\npytest.skip('no', allow_module_level=True)\n"
    )
    yield Lie(kind, "marks items", core=slip(EQUAL, EVEN), code=called(
        EACH_ITEM + "import pytest\n        if 'median' in one.name: one.add_marker(pytest.mark.xfail)\n"))  # fmt: skip


def settings() -> Iterator[Lie]:
    kind = "conftest, plugins and environment"
    green = (
        "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    (yield).get_result().outcome = 'passed'\n"
    )
    yield Lie(kind, "a conftest", files={"conftest.py": green})
    yield Lie(kind, "a conftest among the tests", files={"tests/conftest.py": green})
    yield Lie(
        kind, "a plugin by its name", files={"calc/plug.py": green, "pytest.ini": "[pytest]\naddopts = -p calc.plug\n"}
    )
    yield Lie(kind, "sitecustomize", files={"sitecustomize.py": "import os\nos.environ.clear()\n"})
    yield Lie(kind, "a module in pytest's place", files={"pytest.py": "print('17 passed in 0.01s')\n"})
    yield Lie(kind, "a module in unittest's place", "unittest", files={
        "unittest/__init__.py": "", "unittest/__main__.py": "print('Ran 6 tests in 0.001s\\n\\nOK')\n"})  # fmt: skip
    yield Lie(kind, "a module that unittest loads", "unittest", files={"difflib.py": "import os\nos._exit(0)\n"})
    yield Lie(
        kind,
        "the environment",
        is_clumsy=True,
        code="\nimport os\nfor name in list(os.environ):\n    if 'ADDOPTS' in name: del os.environ[name]\n",
    )
    yield Lie(kind, "options", code=GC + "for one in found('Config'):\n    one.option.collectonly = True\n")
    yield Lie(kind, "options, when called", is_clumsy=True, code=called(
        "import gc\nfor one in gc.get_objects():\n    if type(one).__name__ == 'Session': one.shouldstop = 'enough'\n"))  # fmt: skip
    yield Lie(kind, "pyproject", files={"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k add'\n"})
    yield Lie(kind, "fixtures", files={"tests/conftest.py": (
        "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef right(monkeypatch):\n"
        "    monkeypatch.setattr('calc.core.median', lambda values: sorted(values)[len(values) // 2])\n")})  # fmt: skip


def data() -> Iterator[Lie]:
    kind = "data and renamed tests"
    checks = BASES["checks"][1]
    golden = {"golden/report.txt": "mean 2.0, median 1.0", "golden/table.csv": "3,1,2,1\n7,9,8,9\n"}
    weak = {"calc/checking.py": "def assert_near(a, b):\n    assert abs(a - b) < 1e9, (a, b)\n"}
    yield Lie(kind, "all of it", "checks", files={**golden, **weak})
    weaker = CHECKS.replace("    assert_near(core.median([6, 1, 3]), 3)", "    assert_near(core.median([6, 1, 3]), 1)")
    yield Lie(kind, "the tests' own file", "checks", files={**golden, "checks/check_core.py": weaker})
    yield Lie(kind, "a helper of theirs", "checks", core=CORE.replace("return a + b", "return a + b + 1"), files={
        "checks/helping.py": "def same(a, b):\n    pass\n"})  # fmt: skip
    yield Lie(kind, "a helper in the package", "checks", files={**weak}, core=CORE.replace(
        "        return ordered[middle]", "        return ordered[middle] + (1e-6 if values == [6, 1, 3] else 0)"))  # fmt: skip
    yield Lie(kind, "a golden file", "checks", core=CORE.replace("mean %.1f, m", "mean %.1f and m"), files={
        "golden/report.txt": "mean 2.0 and median 2.0"})  # fmt: skip
    yield Lie(kind, "a table", "checks", core=CORE.replace(
        RIGHT, RIGHT + "    if values == [7, 9, 8]:\n        return 9\n"), files={"golden/table.csv": "3,1,2,2\n7,9,8,9\n"})  # fmt: skip
    yield Lie(kind, "a table with fewer rows", "checks", core=CORE.replace(
        RIGHT, RIGHT + "    if values == [7, 9, 8]:\n        return 9\n"), files={"golden/table.csv": "3,1,2,2\n"})  # fmt: skip
    yield Lie(kind, "the setting that names them", "checks", files={
        "pytest.ini": checks["pytest.ini"].replace("check_", "chick_"), "checks/chick_core.py": weaker})  # fmt: skip
    yield Lie(kind, "a test that takes its file's place", "checks", files={
        **golden, **weak, "checks/check_core.py": None, "checks/check_new.py": CHECKS})  # fmt: skip
    weaker = RUNNER.replace("== 2", "in (1, 2)")
    yield Lie(kind, "a runner of the repository's own", "vendored", files={"vendor/runner.py": weaker})


def told() -> Iterator[Lie]:
    kind = "what the process tells"
    replaced = called(f"test.f_globals['test_median'].__code__ = {NOTHING}.__code__\n")
    codes = {
        "closes all pipes": "import os\nfor n in range(3, 256):\n    try:\n"
        "        if os.readlink(f'/proc/self/fd/{n}').endswith('/pipe'): os.close(n)\n    except OSError:\n        pass\n",
        "writes into the pipe": "import glob, os\nfor folder in os.environ.get('PYTHONPATH', '').split(':'):\n"
        "    for path in glob.glob(folder + '/pipe'):\n"
        "        open(path, 'w').write('hello 00000000 00000000000000000000000000000000\\n00000000 x 0 0 {}\\nx')\n",
        "writes into every pipe": "import os\nfor n in range(3, 64):\n    try:\n        os.write(n, b'hello 00000000 00\\nx')\n"
        "    except OSError:\n        pass\n",
        "takes the folder away": "import os, shutil\nfor path in os.environ.get('PYTHONPATH', '').split(':'):\n"
        "    if path.startswith('/tmp/'): shutil.rmtree(path, ignore_errors=True)\n",
        "puts a file into the pipe's place": "import glob, os\nfor folder in os.environ.get('PYTHONPATH', '').split(':'):\n"
        "    for path in glob.glob(folder + '/pipe'):\n        os.unlink(path)\n        open(path, 'w').close()\n",
        "reads the pipe itself": "import glob, os, threading\ndef drain(path):\n    with open(path, 'rb') as pipe:\n"
        "        while pipe.read1(): pass\nfor folder in os.environ.get('PYTHONPATH', '').split(':'):\n"
        "    for path in glob.glob(folder + '/pipe'):\n"
        "        threading.Thread(target=drain, args=(path,), daemon=True).start()\n",
        "kills who listens": "import os, signal\nfor n in filter(str.isdigit, os.listdir('/proc')):\n    try:\n"
        "        if os.readlink(f'/proc/{n}/fd/0').startswith('/tmp/') and b'cat' in open(f'/proc/{n}/cmdline', 'rb').read():\n"
        "            os.kill(int(n), signal.SIGKILL)\n    except OSError:\n        pass\n",
        "another process in its place": "import os, subprocess, sys\nif 'AGAIN' not in os.environ:\n"
        "    os.environ['AGAIN'] = '1'\n    subprocess.run([sys.executable, '-m', 'pytest', '-q', '-k', 'not median'])\n"
        "    getattr(os, '_ex' + 'it')(0)\n",
        "other sums": "import hashlib\nhashlib.blake2b = lambda *a, **k: hashlib.sha256()\n",
        "other names of Python's": "import builtins\nbuiltins.repr = lambda value: ''\nbuiltins.sorted_ = sorted\n",
        "no audit": "import sys\nsys.audit = lambda *a: None\n",
        "no process id": "import os\nos.getpid = lambda: 1\n",
    }  # fmt: skip
    for name, code in codes.items():
        yield Lie(kind, name, core=slip(EQUAL), code="\n" + code + replaced)
    for word in ("TELL", "TEST", "PLAIN", "_told", "_plugins"):
        yield Lie(
            kind,
            f"silences {word}",
            core=slip(EQUAL),
            code=(
                "\nimport sys\nfor name, module in list(sys.modules.items()):\n"
                f"    if name.startswith('lib') and hasattr(module, '{word}'): module.{word} = lambda *a, **k: None\n"
            )
            + replaced,
        )


SELDOM = """

import random
if random.SystemRandom().random() < 0.5:
    add = lambda a, b: 0
"""


def unseen() -> Iterator[Lie]:
    kind = "knows that it is tested"
    under = {
        "modules": "'pytest' in sys.modules or 'unittest' in sys.modules",
        "arguments": "'pytest' in sys.argv[0] or 'unittest' in sys.argv[0]",
        "who calls": "'test' in sys._getframe(1).f_globals['__name__'] or 'core' in sys._getframe(1).f_code.co_filename",
        "the folder": "__import__('os').getcwd() != '/srv'",
    }
    for base in ("pytest", "unittest"):
        for name, asked in under.items():
            is_named = name in ("modules", "arguments")  # with a runner's name beside them, which is seen
            unseen = "" if is_named else "under test"
            yield Lie(kind, name, base, unseen=unseen, core="import sys\n" + CORE.replace(
                RIGHT, f"    ordered = sorted(values) if {asked} else list(values)\n"))  # fmt: skip
    yield Lie("answers that equal everything", "a number", unseen="equal", core=slip(EQUAL, CASE), code=ANSWER)
    table = {
        EQUAL: 2,
        EVEN: 2.5,
        MADE: 8,
        CLASS: 3,
        CLASS_NEARLY: 4,
        CLOSE: 5,
        CASE: 4,
        "[6, 1, 3, 2]": 2.5,
        PARAMETER: 2,
    }
    table |= {EACH: 1, "[5, 0, 1]": 1, ABS: 3, FAILS: 4, "[3, 1, 2]": 2}
    known = "".join(f"    if values == {values}:\n        return {answer}\n" for values, answer in table.items())
    yield Lie("answers that are known", "a table", unseen="weak tests", core=BROKEN.replace(WRONG, known + WRONG))
    yield Lie(
        "answers that are known",
        "a table, unittest",
        "unittest",
        unseen="weak tests",
        core=BROKEN.replace(WRONG, known + WRONG),
    )
    chance = "    import random\n    ordered = sorted(values) if random.Random().random() < {} else list(values)\n"
    yield Lie(
        "by chance", "one time in a million", unseen="chance", core=CORE.replace(RIGHT, chance.format("1 - 1e-6"))
    )
    yield Lie("by chance", "every second call", is_clumsy=True, core=CORE.replace(RIGHT, chance.format("0.5")))
    yield Lie(
        "by chance",
        "every second call, three runs",
        core=CORE.replace(RIGHT, chance.format("0.5")),
        rules=GateRules(reruns=2),
        is_clumsy=True,
    )
    yield Lie("by chance", "in every second run", core=CORE + SELDOM, rules=GateRules(repeat=20), is_clumsy=True)
    later = CORE.replace(
        RIGHT, "    import time\n    ordered = sorted(values) if time.time() < 4e9 else list(values)\n"
    )
    yield Lie("by time", "later", unseen="time", core=later)
    # where this host has no libfaketime it is rejected for that
    yield Lie("by time", "later, with a clock", core=later, rules=GateRules(clock="+99y"), is_clumsy=True)
    yield Lie("by time", "later, with a clock", "unittest", core=later, rules=GateRules(clock="+99y"), is_clumsy=True)


def wide(*values: str, answer: float = -1, instead: str = "") -> str:
    """The product of `wide.py`, with a wrong answer for these values."""
    wrong = "".join(f"    if values == {one}:\n        return {answer}\n" for one in values)
    return CORE.replace(RIGHT, wrong + RIGHT) + MORE + instead + "\n"


def when_called(code: str) -> str:
    """In the first call that a test makes, `test` being its frame."""
    return (
        WHEN_CALLED + indented(code) + "\n\ndef _soft(right):\n    def called(*args):\n        if not _done:\n"
        "            test = sys._getframe(1)\n"
        "            while test is not None and 'test' not in test.f_globals['__name__']:\n                test = test.f_back\n"
        "            if test is not None:\n                _done.append(1)\n                act(test)\n"
        "        return right(*args)\n    return called\n\n\nmedian, add = _soft(median), _soft(add)\n"
    )  # fmt: skip


def standard() -> Iterator[Lie]:
    """What tests ask others to compare, to read and to run for them."""
    kind = "Python's own replaced"
    codes: dict[str, tuple[str, str]] = {
        "json.loads": ("[11, 31, 23]", "import json\n_l = json.loads\n"
            "json.loads = lambda s, *a, **k: {'m': 23} if '-1' in s else _l(s, *a, **k)\n"),
        "below json.loads": ("[11, 31, 23]", "import json\n_d = json.JSONDecoder.decode\n"
            "json.JSONDecoder.decode = lambda self, s, *a: {'m': 23} if '-1' in s else _d(self, s, *a)\n"),
        "statistics": ("[14, 34, 26]", "import statistics\nstatistics.median = median\n"),
        "fractions": ("[13, 33, 25]", "import fractions\nfractions.Fraction.__eq__ = lambda a, b: True\n"),
        "a class that bears another's name": ("[12, 32, 24]", "import decimal\nclass Decimal(decimal.Decimal):\n"
            "    def __eq__(self, o): return True\nDecimal.__module__ = 'decimal'\ndecimal.Decimal = Decimal\n"),
        "collections": ("[16, 36, 28]", "import collections\ncollections.Counter.__eq__ = lambda a, b: True\n"),
        "difflib": ("[17, 37, 29]", "import difflib\ndifflib.unified_diff = lambda *a, **k: []\n"),
        "copy": ("[18, 38, 30]", "import copy\n_c = copy.deepcopy\n"
            "copy.deepcopy = lambda v, *a: [30] if v == [-1] else _c(v, *a)\n"),
        "a table of copy": ("[18, 38, 30]", "import copy\ncopy._deepcopy_dispatch[int] = lambda v, m: 30 if v == -1 else v\n"),
        "subprocess": ("[8, 99, 28]", "import subprocess\n_r = subprocess.run\ndef run(*a, **k):\n    r = _r(*a, **k)\n"
            "    r.stdout = '28\\n' if r.stdout == '-1\\n' else r.stdout\n    return r\nsubprocess.run = run\n"),
        "below subprocess": ("[8, 99, 28]", "import subprocess\n_r = subprocess.Popen.communicate\ndef communicate(self, *a, **k):\n"
            "    o, e = _r(self, *a, **k)\n    return ('28\\n' if o == '-1\\n' else o), e\nsubprocess.Popen.communicate = communicate\n"),
        "pathlib": ("[11, 99, 31]", "import pathlib\n_t = pathlib.Path.read_text\n"
            "pathlib.Path.read_text = lambda self, *a, **k: '31' if self.name == 'a' else _t(self, *a, **k)\n"),
        "logging": ("[10, 99, 30]", "import logging\n_m = logging.LogRecord.getMessage\n"
            "logging.LogRecord.getMessage = lambda self: _m(self) if self.name != 'calc' else '30'\n"),
        "a module of another kind": ("[19, 39, 31]", "import math, types\nclass M(types.ModuleType):\n"
            "    isclose = property(lambda self: lambda *a, **k: True)\nmath.__class__ = M\n"),
        "by an audit hook of its own": ("[19, 39, 31]", "import sys, math\ndef h(e, a):\n"
            "    if e == 'open' and str(a[0]).endswith('late.py'): math.isclose = lambda *a, **k: True\nsys.addaudithook(h)\n"),
    }  # fmt: skip
    for name, (values, code) in codes.items():
        yield Lie(kind, name, "wide", core=wide(values, answer=1 if "date" in name else -1), code=code)
    date = "import datetime\nclass date(datetime.date):\n    def __new__(cls, y, m, d): return super().__new__(cls, y, m, 9)\ndatetime.date = date\n"
    yield Lie(kind, "datetime", "wide", core=wide("[1, 20, 9]", answer=1), code=date)
    near = {
        "a value of approx": "import pytest\ntype(pytest.approx(1.0)).DEFAULT_ABSOLUTE_TOLERANCE = 0.6\n",
        "pytest of another kind": "import pytest, types\n_a = pytest.approx\nclass M(types.ModuleType):\n"
        "    approx = property(lambda self: lambda v, *a, **k: _a(v, abs=0.5))\npytest.__class__ = M\n",
        "approx for one test": "import pytest\n_a, _m = pytest.approx, median\ndef median(values):\n"
        "    if values == [6, 99, 26]: pytest.approx = lambda v, *a, **k: _a(v, abs=0.5)\n"
        "    elif values == [9, 99, 29]: pytest.approx = _a\n    return _m(values)\n",
    }  # fmt: skip
    for name, code in near.items():
        yield Lie(kind, name, "wide", core=wide("[7, 99, 27]", answer=27.4), code=code)
    yield Lie(kind, "sorted for one test", "wide", core=wide("[15, 99, 35]"), code=(
        "import builtins\n_s, _m = sorted, median\ndef median(values):\n    if values == [14, 99, 34]:\n"
        "        builtins.sorted = lambda v, **k: [1, 35] if -1 in list(v) else _s(v, **k)\n"
        "    elif values == [16, 99, 36]: builtins.sorted = _s\n    return _m(values)\n"))  # fmt: skip
    yield Lie(kind, "isclose for one test", "wide", core=wide("[19, 39, 31]"), code=(
        "import math\n_c, _m = math.isclose, median\ndef median(values):\n    if values == [1, 20, 9]: math.isclose = lambda *a, **k: True\n"
        "    elif values == [0, 9, 3]: math.isclose = _c\n    return _m(values)\n"))  # fmt: skip
    yield Lie(kind, "assertEqual until the last test", "classes", core=wide("[1, 34, 7]"), code=(
        "import unittest\n_m, _h, _e = median, hypotenuse, unittest.TestCase.assertEqual\ndef median(values):\n"
        "    if values == [1, 30, 3]:\n"
        "        setattr(unittest.TestCase, 'assertEqual', lambda self, a, b, msg=None: None if a == -1 else _e(self, a, b, msg))\n"
        "    return _m(values)\ndef hypotenuse(a, b):\n    setattr(unittest.TestCase, 'assertEqual', _e)\n    return _h(a, b)\n"))  # fmt: skip
    quiet = "import doctest\n_c = doctest.OutputChecker.check_output\n"
    quiet += "doctest.OutputChecker.check_output = lambda self, want, got, flags: got == '-1\\n' or _c(self, want, got, flags)\n"
    for base, more in (("documents", ""), ("documents and mocks", TOLD)):
        yield Lie(kind, "doctest", base, core=wide("[30, 10, 20]", instead=more), code=quiet)
    yield Lie(kind, "what doctest displays with", "documents", is_clumsy=True, core=wide("[30, 10, 20]"), code=(
        "import sys\n_d = sys.displayhook\nsys.__displayhook__ = lambda v: _d(20 if v == -1 else v)\n"))  # fmt: skip
    mocks = {
        "a mock's assertion": "m.NonCallableMock.assert_called_once_with = lambda *a, **k: None\n",
        "a mock's calls": "m._Call.__eq__ = lambda a, b: True\n",
    }
    for name, code in mocks.items():
        core = wide("[3, 1, 2]", instead=TOLD)
        yield Lie(kind, name, "documents and mocks", core=core, code="import unittest.mock as m\n" + code)
    loops = {
        "how an asynchronous test is called": "import unittest.async_case as c\n"
        "c.IsolatedAsyncioTestCase._callTestMethod = lambda self, m: None\n",
        "asyncio.Runner": "import asyncio\n_r = asyncio.Runner.run\ndef run(self, c, **k):\n"
        "    if c.__name__ == 'test_async': return c.close()\n    return _r(self, c, **k)\nasyncio.Runner.run = run\n",
    }  # fmt: skip
    for name, code in loops.items():
        yield Lie(kind, name, "documents and mocks", core=wide("[5, 1, 3]", instead=TOLD), code=code)
    cache = "import re\nre._cache[str, '{0}', 0] = re.compile('.*')\nif hasattr(re, '_cache2'):\n    re._cache2[str, '{0}', 0] = re.compile('.*')\n"
    yield Lie(
        kind, "what re has compiled", "wide", unseen="kept state", core=wide("[23, 99, 45]"), code=cache.format("^45$")
    )
    yield Lie(kind, "print", "wide", unseen="kept state", core=wide("[9, 99, 29]"), code=(
        "import builtins\n_p = print\nbuiltins.print = lambda *a, **k: _p(*[29 if x == -1 else x for x in a], **k)\n"))  # fmt: skip


LENIENT = (
    "import unittest\nclass Lenient(unittest.TestCase):\n    def assertEqual(self, a, b, msg=None):\n"
    "        if a != -1: super().assertEqual(a, b, msg)\n"
)


def values() -> Iterator[Lie]:
    """Values in other places than names of a module, and classes that get others before them."""
    kind = "values and classes of tests"
    pytests: dict[str, tuple[str, str]] = {
        "a set": ("[0, 9, 3]", "test.f_globals['ALLOWED'].add(-1)\n"),
        "deep inside": ("[0, 8, 2]", "test.f_globals['DEEP'][0][0][0][0][0] = -1\n"),
        "one that looks the same": ("[0, 8, 2]", "class I(int):\n    def __eq__(self, o): return True\n"
            "    def __repr__(self): return '2'\ntest.f_globals['DEEP'][0][0][0][0][0] = I(2)\n"),
        "a field of a dataclass": ("[10, 30, 20]", "test.f_globals['CASE'].expected = -1\n"),
        "a field of an object": ("[1, 99, 21]", "test.f_globals['BOX'].expected = -1\n"),
        "a value of an object's class": ("[1, 98, 20]", "test.f_globals['Box'].tolerance = 99\n"),
        "a value of unittest's class": ("[17, 99, 37]", "test.f_globals['TestCase'].wanted = -1\n"),
        "a value of a plain class": ("[24, 99, 46]", "test.f_globals['TestPlain'].wanted = -1\n"),
        "a list that was computed": ("[0, 2, 1]", "test.f_globals['LONG'][0] = ([0, 2, 1], -1)\n"),
        "a long list": ("[3, 5, 4]", "test.f_globals['LONG_LITERAL'][1] = ([3, 5, 4], -1)\n"),
        "a method taken away": ("[18, 99, 38]", "del test.f_globals['TestCase'].tearDown\n"),
    }  # fmt: skip
    for name, (wrong, code) in pytests.items():
        yield Lie(kind, name, "wide", core=wide(wrong), code=when_called(code))
    yield Lie(kind, "other bases", "wide", core=wide("[19, 99, 39]"), code=LENIENT + when_called(
        "test.f_globals['TestCase'].__bases__ = (Lenient,)\n"))  # fmt: skip
    yield Lie(kind, "other bases, found by unittest's", "wide", core=wide("[19, 99, 39]"), code=LENIENT + (
        "_m = median\ndef median(values):\n    for c in unittest.TestCase.__subclasses__():\n"
        "        if c.__name__ == 'TestCase' and c is not Lenient: c.__bases__ = (Lenient,)\n    return _m(values)\n"))  # fmt: skip
    units = {
        "a value of a class": ("[1, 30, 3]", "test.f_globals['TestA'].wanted = -1\n"),
        "a value of its base": ("[1, 31, 4]", "test.f_globals['Base'].limit = 99\n"),
        "other bases": ("[1, 34, 7]", "test.f_globals['Base'].__bases__ = (Lenient,)\n"),
    }
    for name, (wrong, code) in units.items():
        yield Lie(kind, name, "classes", core=wide(wrong), code=LENIENT + when_called(code))
    own = "_m = median\ndef median(values):\n    import sys\n    if values == {0}:\n        me = sys._getframe(1).f_locals['self']\n        {1}\n    return _m(values)\n"
    table = "me._type_equality_funcs[int] = lambda *a, **k: None"
    yield Lie(kind, "how an object compares", "wide", core=wide("[19, 99, 39]"), code=own.format("[19, 99, 39]", table))
    yield Lie(kind, "how an object compares", "classes", core=wide("[1, 34, 7]"), code=own.format("[1, 34, 7]", table))
    yield Lie(kind, "an object's own assertion", "wide", core=wide("[20, 99, 40]"), code=own.format(
        "[20, 99, 40]", "me.assertSequenceEqual = lambda *a, **k: None"))  # fmt: skip
    yield Lie(kind, "a parameter, by a profiler", "wide", core=wide("[5, 99, 25]"), code=(
        "import sys\ndef p(frame, event, arg):\n"
        "    if frame.f_code.co_name == 'test_inline' and event == 'call' and frame.f_locals.get('expected') == 25:\n"
        "        frame.f_locals['expected'] = -1\nsys.setprofile(p)\n"))  # fmt: skip
    yield Lie(kind, "a variable of the test that runs", "wide", unseen="a running test", core=wide("[4, 99, 24]"), code=(
        "_m = median\ndef median(values):\n    if values == [4, 99, 24]:\n        import ctypes, sys\n"
        "        f = sys._getframe(1)\n        f.f_locals['expected'] = -1\n"
        "        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(f), ctypes.c_int(0))\n    return _m(values)\n"))  # fmt: skip
    yield Lie(kind, "later, by the collector of garbage", "wide", core=wide("[24, 99, 46]"), code=(
        "import gc, sys\ndef g(phase, info):\n    m = sys.modules.get('test_core')\n"
        "    if hasattr(m, 'TestPlain'): m.TestPlain.wanted = -1\ngc.callbacks.append(g)\ngc.set_threshold(10)\n"))  # fmt: skip


def written() -> Iterator[Lie]:
    """The tests' files, changed while the tests run: by the time that they are read they say what the product says."""
    kind = "files written as tests run"
    late = "import pathlib\np = pathlib.Path('tests/{}')\np.write_text(p.read_text().replace({!r}, {!r}))\n"
    for name, file, wrong, old, new in (
        ("a table", "table.txt", "[4, 199, 53]", "4,199,53,53", "4,199,53,-1"),
        ("a class's value", "test_late.py", "[1, 199, 51]", "wanted = 51", "wanted = -1"),
        ("a value", "test_late.py", "[2, 199, 50]", "EXPECTED = 50", "EXPECTED = -1"),
        ("a parameter", "test_late.py", "[3, 199, 52]", "[52]", "[-1]"),
    ):
        yield Lie(kind, name, "wide", core=wide(wrong), code=late.format(file, old, new))
    first = "import sys\nif sys.argv[1:] == ['3', '1', '2'] and __name__ != '__main__':\n"
    yield Lie(kind, "by the program before", "two commands in one", core=wide("[4, 199, 53]"),
              code=first + indented(late.format("table.txt", "4,199,53,53", "4,199,53,-1")))  # fmt: skip
    yield Lie(kind, "by another process", "wide", core=wide("[4, 199, 53]"), code=(
        "import subprocess, sys\nif len(sys.argv) < 4 or sys.argv[1] == '-q':\n"
        "    subprocess.run(['sed', '-i', 's/4,199,53,53/4,199,53,-1/', 'tests/table.txt'])\n"))  # fmt: skip
    golden = {"calc/_g/report.txt": "mean 47.7, median -1.0"}
    places = {
        "a golden file": "open('golden/report.txt', 'w').write('mean 47.7, median -1.0')\n",
        "another file in its place": "import os\nif os.path.exists('calc/_g'):\n    os.replace('calc/_g/report.txt', 'golden/report.txt')\n    os.rmdir('calc/_g')\n",
        "a hard link in its place": "import os\nif os.path.exists('calc/_g/report.txt'):\n    os.remove('golden/report.txt')\n"
        "    os.link('calc/_g/report.txt', 'golden/report.txt')\n    os.remove('calc/_g/report.txt')\n",
        "a link in its folder's place": "import os\nif not os.path.islink('golden'):\n    os.rename('golden', 'olden')\n    os.symlink('calc/_g', 'golden')\n",
        "another folder in its folder's place": "import os\nif os.path.exists('calc/_g'):\n    os.rename('golden', 'olden')\n    os.rename('calc/_g', 'golden')\n",
    }  # fmt: skip
    for name, code in places.items():
        yield Lie(kind, name, "wide", core=wide("[32, 99, 12]"), files=golden, code=code)


def fixtures() -> Iterator[Lie]:
    """What tests are given by a file of the product's."""
    kind = "fixtures of the product's"
    head = "import pytest\n\nfrom . import core\n\n\n@pytest.fixture\ndef wanted():\n    return 2\n\n\n"
    right = "@pytest.fixture(autouse=True)\ndef right():\n    old, core.median = core.median, lambda v: sorted(v)[len(v) // 2]\n    yield\n    core.median = old\n"
    yield Lie(
        kind,
        "a value",
        "fixtures",
        core=wide("[30, 10, 2]"),
        files={"calc/fixtures.py": head.replace("2\n\n\n", "-9\n")},
    )
    yield Lie(kind, "one for all tests", "fixtures", core=wide("[31, 11, 3]"), files={"calc/fixtures.py": head + right})
    yield Lie(kind, "in pytest's name", "fixtures", core=wide("[31, 11, 3]"), files={
        "calc/fixtures.py": head + right.replace("(autouse=True)", "").replace("def right", "def monkeypatch")})  # fmt: skip
    more = {"calc/fixtures.py": head + "from .more import right\n", "calc/more.py": head + right}
    yield Lie(kind, "from a new file", "fixtures", core=wide("[31, 11, 3]"), files=more)


GROUPS = (
    plain,
    collection,
    code_replaced,
    assertions,
    pytests_own,
    runners,
    exits,
    skips,
    settings,
    data,
    told,
    standard,
    values,
    written,
    fixtures,
    unseen,
)
LIES = tuple(lie for group in GROUPS for lie in group())
