"""What an edit excuses: differences in the file that it edits, and nothing that is called like it, or stands beside
tests that it takes out. The runs are real, as plain processes of this host."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.verdicts import Desk

from envelope.gate import GateRules

PYTEST, UNITTEST = "python -m pytest -q", "python -m unittest -q"
TOLD = {
    "calc/__init__.py": "",
    "calc/core.py": 'import json\n\n\ndef told(x):\n    return json.dumps({"value": x})\n',
    "tests/__init__.py": "",
    "tests/test_core.py": """import json
import unittest
from calc.core import told


class TestIt(unittest.TestCase):
    def test_told(self):
        self.assertEqual(json.loads(told(3)), {"value": 3})
""",
}
WRONG_LOADS = """import json


def told(x):
    return json.dumps({"value": 0})


def _loads(text):
    return {"value": 3}


json.loads = _loads
"""
CORE = """
def add(a, b):
    return a + b


def median(values):
    return sorted(values)[len(values) // 2]


def old(a):
    return a
"""
TESTS = """from calc.core import add, median, old


def test_add():
    assert add(1, 2) == 3


def test_old():
    assert old(3) == 3


def test_median():
    assert median([1, 9, 4]) == 4
"""
BASE = {"calc/__init__.py": "", "calc/core.py": CORE, "tests/test_core.py": TESTS}
WITHOUT_OLD = CORE.partition("\n\ndef old")[0]
WRONG_MEDIAN = WITHOUT_OLD.replace("len(values) // 2", "0").replace(
    "    return a + b",
    "    from functools import update_wrapper\n    from test_core import test_median\n"
    '    update_wrapper(test_median, lambda: None, assigned=("__code__",), updated=())\n    return a + b',
)
FEWER_TESTS = TESTS.replace("def test_old():\n    assert old(3) == 3\n\n\n", "").replace(", old", "")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.mark.parametrize("command", [PYTEST, UNITTEST])
async def test_a_file_that_is_called_like_what_differs_excuses_nothing(command: str, python: Path, tmp_path: Path):
    change = {"calc/core.py": WRONG_LOADS, "json.loads": "x\n"}

    rules = GateRules(may_edit=("json.loads",))  # nobody else can place such a file
    evidence = await Desk(tmp_path / "desk", python, TOLD).judge(change, command, rules=rules)

    assert [(one.code, one.names) for one in evidence.objections] == [("runner_fooled", ("json.loads",))]


@pytest.mark.parametrize(("core", "result"), [(WRONG_MEDIAN, "rejected"), (WITHOUT_OLD, "verified")])
async def test_tests_that_go_with_what_they_test_excuse_nothing_of_those_that_stay(
    core: str, result: str, python: Path, tmp_path: Path
):
    change = {"calc/core.py": core, "tests/test_core.py": FEWER_TESTS}

    evidence = await Desk(tmp_path / "desk", python, BASE).judge(change, PYTEST)

    assert evidence.result == result
    assert any("gone with what they test (old)" in note for note in evidence.notes)
    for objection in evidence.objections:
        assert objection.code == "runner_fooled" and "tests/test_core.py::test_median" in objection.names


MANY = "".join(f"def test_{number:0520d}():\n    assert True\n\n\n" for number in range(200))


async def test_they_need_a_grant_where_what_stays_is_told_file_by_file(python: Path, tmp_path: Path):
    """Of a file with fewer tests it cannot be said then that the others are as they were."""
    desk = Desk(tmp_path / "desk", python, {**BASE, "tests/test_words.py": MANY})
    change = {"calc/core.py": WITHOUT_OLD, "tests/test_core.py": FEWER_TESTS}

    evidence = await desk.judge(change, PYTEST)
    granted = await desk.judge(change, PYTEST, scope=("edit:**", "edit:tests/test_core.py"))

    [objection] = evidence.objections
    assert (objection.code, "edit:tests/test_core.py" in objection.hint) == ("fewer_tests", True)
    assert granted.result == "verified"


CHECKED = {
    "calc.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n",
    "more.py": "x = 1\n",
    "test_calc.py": "import calc\n\n\ndef test_f():\n    assert calc.f() == 7\n\n\n"
    "def test_g():\n    assert calc.g() == 2\n",
    "Makefile": "both: test lint\ntest:\n\tpython -m pytest -q\nlint:\n\tpython -m compileall -q -f more.py\n",
}


@pytest.mark.parametrize(
    ("command", "more", "found"),
    [
        ("make test", "y = 1\n", []),
        ("make -k both", "y = = 1\n", ["failed"]),
        (f"{PYTEST}; a=$?; python -m compileall -q -f more.py || a=1; exit $a", "y = = 1\n", ["failed"]),
    ],
)
async def test_a_test_that_is_known_to_fail_excuses_no_other_program(command, more, found, python, tmp_path: Path):
    evidence = await Desk(tmp_path / "desk", python, CHECKED).judge({"more.py": more}, command)

    assert ([one.code for one in evidence.objections], evidence.known_failures) == (found, ("test_calc::test_f",))
    assert all(
        "cannot be told" in one.message and "a gate command of its own" in one.hint for one in evidence.objections
    )


SESSIONS = {
    "fast.py": "def a():\n    return 1\n",
    "unit/test_fast.py": "import pytest\nfast = pytest.importorskip('fast')\n\n\n"
    "def test_a():\n    assert fast.a() == 1\n",
    "unit/test_more.py": "def test_m():\n    assert True\n",
    "integration/test_slow.py": "def test_c():\n    assert True\n",
    "Makefile": "test:\n\tpython -m pytest -q unit\n\tpython -m pytest -q integration\n",
}


async def test_what_the_first_of_two_sessions_loses_is_seen(python: Path, tmp_path: Path):
    evidence = await Desk(tmp_path / "desk", python, SESSIONS).judge({"fast.py": None}, "make test")

    assert [(one.code, one.names) for one in evidence.objections] == [("fewer_tests", ("unit.test_fast::test_a",))]
