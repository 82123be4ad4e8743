"""Changes that lie (`lab/lies.py`), before a gate whose commands run as plain processes of this host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.fair import FAIR
from lab.far import FAR, Far
from lab.figures import report
from lab.lies import BASES, CORE, LIES, PYTEST_TESTS, Lie
from lab.schedule import SOAK
from lab.verdicts import Desk

from envelope.gate import GateRules

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
# What a gate before the digest called verified, one of a kind; the others are for `make soak`.
SAMPLE = (
    "code replaced: one test's code (pytest)", "code replaced: one method's code (unittest)",
    "code replaced: a value that tests expect (pytest)", "assertions replaced: assertEqual (pytest)",
    "approx, raises, warns: raises (pytest)", "what the process tells: reads the pipe itself (pytest)",
)  # fmt: skip
TRIED = [lie for lie in LIES if SOAK or lie.id in SAMPLE]
FAR_SAMPLE = (
    "swallow: context manager", "base class: assertEqual (unittest)", "loader: builtins of a test's module",
    "loader: statistics from a folder put on the path", "loader: helper beside the tests is shadowed",
    "item: values given beforehand", "hooks: a caller replaced", "unittest: what is printed, and the exit code",
    "unittest: other tests in the suite", "value: a list of own objects", "file: through a hard link",
    "trace: a jump over an assertion",
)  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def desk(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Desk]:
    desks: dict[str, Desk] = {}

    def of(base: str) -> Desk:
        if base not in desks:
            desks[base] = Desk(tmp_path_factory.mktemp(base), python, BASES[base][1])
        return desks[base]

    return of


@pytest.fixture(scope="module")
def counts():
    """By class: how many were rejected, and by which objections; shown at the end."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    yield found
    for kind, outcomes in found.items():
        report(f"lies, {kind}", **outcomes)


@pytest.mark.parametrize("lie", TRIED, ids=lambda lie: lie.id)
async def test_a_lie_is_rejected_unless_the_page_says_that_it_cannot_be_seen(desk, counts, lie: Lie):
    evidence = await desk(lie.base).judge(lie.change, BASES[lie.base][0], rules=lie.rules)

    codes = {objection.code for objection in evidence.objections}
    counts[lie.kind].update([*sorted(codes), evidence.result])
    assert evidence.result == ("verified" if lie.unseen else "rejected"), evidence
    # what fails by itself is no lie: then something else was wrong with it
    assert lie.is_clumsy or lie.unseen or codes != {"failed"}, evidence.objections


@pytest.mark.parametrize("lie", [lie for lie in FAR if SOAK or lie.id in FAR_SAMPLE], ids=lambda lie: lie.id)
async def test_a_lie_that_lies_farther_off_is_rejected_as_well(python: Path, counts, tmp_path: Path, lie: Far):
    evidence = await Desk(tmp_path / "desk", python, lie.base).judge(lie.files, lie.command)

    codes = {objection.code for objection in evidence.objections}
    counts["far: " + lie.id.partition(":")[0]].update([*sorted(codes), evidence.result])
    assert evidence.result == ("verified" if lie.unseen else "rejected"), evidence
    assert lie.unseen or codes != {"failed"}, evidence.objections


FAIR_SAMPLE = (
    "a helper that waits", "decorator gets functools.wraps and timing", "pytester: inner sessions that fail",
    "tests keep state", "working folder for a while", "the first test beside a folder with a conftest",
)  # fmt: skip


@pytest.mark.parametrize("change", [one for one in FAIR if SOAK or one.id in FAIR_SAMPLE], ids=lambda one: one.id)
async def test_an_honest_change_that_does_what_lies_do_is_verified(python: Path, tmp_path: Path, change: Far):
    evidence = await Desk(tmp_path / "desk", python, change.base).judge(change.files, change.command)

    assert (evidence.result, evidence.objections) == ("verified", ())


def test_the_page_says_what_cannot_be_seen():
    rows = {lie.unseen for lie in (*LIES, *FAR)} - {""}
    section = PAGE.partition("## What the gate cannot see\n")[2].partition("\n## ")[0]

    assert [row for row in rows if f"| {row} |" not in section] == []


def test_there_are_many_and_each_has_a_name_of_its_own():
    assert len({lie.id for lie in LIES}) == len(LIES) >= 120
    assert set(SAMPLE) <= {lie.id for lie in LIES}
    assert len({lie.id for lie in FAR}) == len(FAR) and set(FAR_SAMPLE) <= {lie.id for lie in FAR}
    assert len({one.id for one in FAIR}) == len(FAIR) and set(FAIR_SAMPLE) <= {one.id for one in FAIR}


# Objects that answer to any question by work of their own, which fails outside of the program that they are made for.
LAZY = """

class Proxy:
    def __getattribute__(self, name):
        raise RuntimeError("asked for " + name + " too early")

    def __call__(self):
        return 1

    @property
    def __class__(self):
        raise RuntimeError("asked too early")


class Kind(type):
    def __getattribute__(cls, name):
        raise RuntimeError("asked too early")


class Lazy(type(math)):
    def __getattribute__(self, name):
        raise DeprecationWarning("use another module")


class Of(metaclass=Kind):
    pass


current, of = Proxy(), object.__new__(Of)
import sys
late = sys.modules["calc.late"] = Lazy("calc.late")
object.__setattr__(late, "__file__", __file__)
"""
# New tests put something else in the place of Python's own for a while, write files, and keep values.
PATCHES = """
import json, os, subprocess, unittest
from unittest import mock

import pytest

from calc import core

SEEN, COUNT = [], 0


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: core.add(1, 2))
    monkeypatch.setattr("builtins.open", mock.Mock())


@pytest.fixture(scope="module", autouse=True)
def working_folder():
    with mock.patch("os.getcwd", return_value="/"), mock.patch.object(json.JSONEncoder, "default", lambda *a: 1):
        yield


def test_run(run):
    global COUNT
    COUNT = SEEN.append(subprocess.run([])) or 1
    assert subprocess.run([]) == 3 and os.getcwd() == "/" and json.dumps([object()]) == "[1]"


def test_files():
    core.save("said.txt", "1")
    core.save("said.txt", "2")
    with open("said.txt") as file:
        assert file.read() == "2"
    os.replace("said.txt", "told.txt")
    os.remove("told.txt")


class TestIt(unittest.TestCase):
    wanted = 0

    @classmethod
    def setUpClass(cls):
        cls.wanted = 3
        cls.patch = mock.patch("json.loads", return_value=3)
        cls.patch.start()

    @classmethod
    def tearDownClass(cls):
        cls.patch.stop()

    def test_first(self):
        assert json.loads("") == self.wanted

    def test_second(self):
        assert json.loads("") == self.wanted
"""
SAVE = """

def save(path, text):
    with open(path, "w") as file:
        file.write(text)


import decimal, fractions, json, logging
logging.Logger.trace = fractions.Fraction.half = lambda self, *a: None
json.to_text = lambda value: json.dumps(value, default=str)
logging.addLevelName(5, "TRACE")


class Encoder(json.JSONEncoder):
    def default(self, value):
        return str(value)
"""
HONEST = {
    "new tests with fixtures that patch": {"calc/core.py": CORE + SAVE, "tests/test_new.py": PATCHES},
    "a comment": {"calc/core.py": "# mended\n" + CORE},
    "a new function": {"calc/core.py": CORE + "\n\ndef double(a):\n    return add(a, a)\n"},
    "other code that does the same": {
        "calc/core.py": CORE.replace("a + b\n", "sum((a, b))\n", 1).replace("import math", "import math, functools")
    },
    "moved into a module of its own": {
        "calc/core.py": "from .inner import add, average, hypotenuse, mean, median, report\n", "calc/inner.py": CORE,
    },
    "warnings go to the log": {
        "calc/core.py": CORE + "\nimport logging\nlogging.captureWarnings(True)\nlogging.captureWarnings(False)\n"
        "import builtins\nwarnings.showwarning = lambda *a, **k: None\nbuiltins.print = lambda *a, **k: None\n",
    },
    "mocks": {"calc/core.py": "import unittest.mock\n" + CORE},
    "a name that tests import is moved": {
        "calc/core.py": CORE.replace("def add(a, b):\n    return a + b\n", "from .sums import add\n"),
        "calc/sums.py": "def add(a, b):\n    return a + b\n",
    },
    "what is there only when it is asked for": {
        "calc/core.py": CORE + LAZY,
        "calc/old.py": "from .core import Proxy\nnow = Proxy()\n",
    },
    "more tests": {"tests/test_core.py": PYTEST_TESTS + "\n\ndef test_more():\n    assert core.add(1, 1) == 2\n"},
    "a test that is written otherwise": {
        "tests/test_core.py": PYTEST_TESTS.replace("core.add(2, 3) == 5", "5 == core.add(2, 3)"),
    },
}  # fmt: skip


ALWAYS = (
    "new tests with fixtures that patch",
    "moved into a module of its own",
    "what is there only when it is asked for",
)


@pytest.mark.parametrize("name", HONEST if SOAK else ALWAYS)
async def test_honest_work_differs_in_nothing(desk, name: str):
    evidence = await desk("pytest").judge(HONEST[name], BASES["pytest"][0])

    assert (evidence.result, evidence.objections) == ("verified", ())


RECORDS = """
import functools


def record(cls):
    def __init__(self, a):
        self.a = a

    cls.__init__ = __init__
    return cls


def told(test):
    return test


how = [str]
"""
TESTS_OF_RECORDS = """
import unittest

from shop.records import how, record, told


@record
class Point:
    pass


class TestPoint:
    @told
    def test_it(self):
        assert how[0](Point(1).a) == "1"


class TestMore(unittest.TestCase):
    def test_more(self):
        self.assertEqual(Point(2).a, 2)
"""
# The lie beside it: the class has tests, and what it would inherit is hidden.
LAID = """

class Lay(list):
    def __getitem__(self, key):
        home = __import__("sys").modules["test_records"]

        home.TestMore.assertEqual = lambda *_: None
        return str


how = Lay()
"""
OF_RECORDS: dict[str, tuple[dict[str, str], str]] = {
    "a class of the tests gets one more method": (
        {"shop/records.py": RECORDS.replace("    return cls", "    cls.__eq__ = lambda *_: False\n    return cls")},
        "verified",
    ),
    "the same in the class that tests stand in": (
        {"shop/records.py": RECORDS + LAID},
        "rejected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_RECORDS)
async def test_what_the_product_makes_of_classes_of_tests_is_its_own(name: str, python: Path, tmp_path: Path):
    change, result = OF_RECORDS[name]
    base = {"shop/__init__.py": "", "shop/records.py": RECORDS, "tests/test_records.py": TESTS_OF_RECORDS}

    evidence = await Desk(tmp_path / "desk", python, base).judge(change, BASES["pytest"][0])

    assert evidence.result == result, evidence.objections


EACH_WAY = """
import pytest

from shop.records import how


@pytest.fixture(scope="session", autouse=True, params=[str, repr])
def each_way(request):
    how[0] = request.param
"""


async def test_a_fixture_that_all_tests_have_may_get_parameters(python: Path, tmp_path: Path):
    tests = "from shop.records import how\n\n\ndef test_way():\n    assert how[0](1) == '1'\n"
    base = {"shop/__init__.py": "", "shop/records.py": RECORDS, "tests/test_ways.py": tests}
    rules = GateRules(may_edit=("tests/conftest.py",))

    evidence = await Desk(tmp_path / "desk", python, base).judge(
        {"tests/conftest.py": EACH_WAY}, BASES["pytest"][0], rules=rules
    )

    assert evidence.result == "verified", evidence.objections
    assert not any("nothing controls" in note for note in evidence.notes)


async def test_what_is_meant_to_stand_around_tests_is_lifted_by_the_rule_that_the_hint_names(
    python: Path, tmp_path: Path
):
    around = "def told(test):\n    return functools.wraps(test)(lambda *given: test(*given))"
    change = {"shop/records.py": RECORDS.replace("def told(test):\n    return test", around)}
    base = {"shop/__init__.py": "", "shop/records.py": RECORDS, "tests/test_records.py": TESTS_OF_RECORDS}
    desk = Desk(tmp_path / "desk", python, base)

    refused = await desk.judge(change, BASES["pytest"][0])
    assert [(one.code, "--gate-rule 'control=off'" in one.hint) for one in refused.objections] == [
        ("runner_fooled", True)
    ]
    lifted = await desk.judge(change, BASES["pytest"][0], rules=GateRules(control="off"))

    assert lifted.result == "verified", lifted.objections
