"""Tests that go with what they test: what is believed, and the lies that would look like it. A table of sources."""

from __future__ import annotations

import json

import pytest

from orchestrator.gating.subjects import answer
from repo.apart import run_apart

CORE = """
def add(a, b):
    return a + b


def median(values):
    return sorted(values)[len(values) // 2]


class Stack:
    def __init__(self, items=()):
        self.items = list(items)

    def pop(self):
        return self.items.pop()

    def size(self):
        return len(self.items)
"""
MEDIAN, POP = (
    CORE[CORE.index("def median") : CORE.index("class Stack")],
    CORE[CORE.index("    def pop") : CORE.index("    def size")],
)
HEAD = "import pytest\nfrom calc.core import Stack, add, median\n\nVALUES = [3, 1, 2]\n\n\n"
ADDS = "def test_add():\n    assert add(1, 2) == 3\n\n\n"
MEDIANS = "def test_median():\n    assert median(VALUES) == 2\n\n\n"
POPS = "def test_pop():\n    assert Stack([1]).pop() == 1\n"
BASE = HEAD + ADDS + MEDIANS + POPS
WITHOUT_MEDIAN = "import pytest\nfrom calc.core import Stack, add\n\n" + ADDS + POPS


def asked(old: str, new: str | None, core: str | None, **more: list[str | None]) -> dict[str, object]:
    product = {"calc/core.py": [CORE, core], **{path.replace("__", "/") + ".py": sides for path, sides in more.items()}}
    names = ["calc", "core", "tests", "helpers", "conftest"]
    return {
        "tests": {"tests/test_core.py": [old, new]},
        "product": product,
        "modules": ["calc", "calc.core"],
        "names": names,
    }


def retired(old: str, new: str | None, core: str | None, **more: list[str | None]) -> tuple[list[str], list[str]]:
    found = answer(asked(old, new, core, **more)).get("tests/test_core.py", {"tests": [], "subjects": []})
    return found["tests"], found["subjects"]


NO_MEDIAN = CORE.replace(MEDIAN, "")


@pytest.mark.parametrize(
    ("old", "new", "core", "expected"),
    [
        (BASE, WITHOUT_MEDIAN, NO_MEDIAN, (["test_median"], ["median"])),
        (HEAD + MEDIANS, None, NO_MEDIAN, (["test_median"], ["median"])),
        (BASE, None, None, (["test_add", "test_median", "test_pop"], ["Stack", "add", "median", "pop"])),
        (BASE, HEAD + ADDS + MEDIANS, CORE.replace(POP, ""), (["test_pop"], ["pop"])),
        (BASE, HEAD.replace("Stack, ", "") + ADDS + MEDIANS, CORE.replace(POP, ""), (["test_pop"], ["pop"])),
        (
            "import calc.core as c\n\n\ndef test_add():\n    assert c.add(1, 1)\n\n\n"
            "def test_it():\n    assert c.median([1])\n",
            "import calc.core as c\n\n\ndef test_add():\n    assert c.add(1, 1)\n",
            NO_MEDIAN,
            (["test_it"], ["median"]),
        ),
        (
            "import calc.core\n\n\nclass TestIt:\n    def test_a(self):\n        assert calc.core.median([1])\n\n"
            "    def test_b(self):\n        assert calc.core.add(1, 1)\n",
            "import calc.core\n\n\nclass TestIt:\n    def test_b(self):\n        assert calc.core.add(1, 1)\n",
            NO_MEDIAN,
            (["TestIt.test_a"], ["median"]),
        ),
        (
            "import pytest\nfrom calc.core import median\n\n\n@pytest.fixture\ndef many():\n    return [1, 2]\n\n\n"
            "@pytest.mark.parametrize('n', [1, 2])\ndef test_it(many, n, tmp_path):\n    assert median(many)\n",
            None,
            NO_MEDIAN,
            (["test_it"], ["median"]),
        ),
    ],
)
def test_tests_may_go_with_their_subjects(old, new, core, expected):
    assert retired(old, new, core) == expected


LIES = {
    "what it tests is still there": (BASE, WITHOUT_MEDIAN, CORE.replace("// 2", "// 3")),
    "it is there under another name": (BASE, WITHOUT_MEDIAN, CORE.replace("median", "middle")),
    "it is there as an attribute": (BASE, WITHOUT_MEDIAN, NO_MEDIAN + "\n\nadd.middle = lambda values: 0\n"),
    "something else that is left is tested, too": (
        HEAD + "def test_median():\n    assert median([add(1, 1)]) == 2\n",
        None,
        NO_MEDIAN,
    ),
    "another member that is left is tested, too": (
        HEAD + "def test_pop():\n    stack = Stack([1, 2])\n    assert (stack.pop(), stack.size()) == (2, 1)\n",
        None,
        CORE.replace(POP, ""),
    ),
    "a helper tests what is left": (
        HEAD + "def check(f):\n    assert add(1, 1) == f([2])\n\n\ndef test_median():\n    check(median)\n",
        None,
        NO_MEDIAN,
    ),
    "a fixture that nobody knows": (HEAD + "def test_median(sums):\n    assert median(sums) == 2\n", None, NO_MEDIAN),
    "a helper of another file": (
        "from helpers import check\nfrom calc.core import median\n\n\ndef test_median():\n    check(median)\n",
        None,
        NO_MEDIAN,
    ),
    "a base class of another file": (
        "from helpers import Checks\nfrom calc.core import median\n\n\nclass TestIt(Checks):\n"
        "    def test_median(self):\n        assert median([1])\n",
        None,
        NO_MEDIAN,
    ),
    "a test beside it is weakened": (BASE, WITHOUT_MEDIAN.replace("== 3", ">= 0"), NO_MEDIAN),
    "a test beside it is skipped": (
        BASE,
        WITHOUT_MEDIAN.replace("def test_add", "@pytest.mark.skip\ndef test_add"),
        NO_MEDIAN,
    ),
    "a test is added": (BASE, WITHOUT_MEDIAN + "\n\ndef test_more():\n    assert True\n", NO_MEDIAN),
    "tests change their order": (BASE, "from calc.core import Stack, add\n\n" + POPS + ADDS, NO_MEDIAN),
    "what runs before each test goes": (
        HEAD + "def setup_module():\n    add.strict = True\n\n\n" + ADDS + MEDIANS + POPS,
        WITHOUT_MEDIAN,
        NO_MEDIAN,
    ),
    "a fixture that nobody names goes": (
        HEAD + "@pytest.fixture(autouse=True)\ndef strict():\n    add.strict = True\n\n\n" + ADDS + MEDIANS + POPS,
        WITHOUT_MEDIAN,
        NO_MEDIAN,
    ),
    "an import that acts by itself goes": ("import strict\n" + BASE, WITHOUT_MEDIAN, NO_MEDIAN),
    "a mark of the whole file goes": (
        HEAD + "pytestmark = pytest.mark.strict\n" + ADDS + MEDIANS + POPS,
        WITHOUT_MEDIAN,
        NO_MEDIAN,
    ),
    "its name is made up": (
        "import calc.core\n\n\ndef test_it():\n    assert getattr(calc.core, 'median') is calc.core.median\n",
        None,
        NO_MEDIAN,
    ),
    "all of a module is taken": ("from calc.core import *\n\n\ndef test_it():\n    median([1])\n", None, NO_MEDIAN),
    "it has nothing to do with it": ("import json\n\n\ndef test_it():\n    assert json.loads('1')\n", None, NO_MEDIAN),
    "the module makes names up": (BASE, WITHOUT_MEDIAN, NO_MEDIAN + "\n\ndef __getattr__(name):\n    return add\n"),
    "the product cannot be read": (BASE, WITHOUT_MEDIAN, NO_MEDIAN + "\ndef (:\n"),
    "tests in a class within go": (
        HEAD + "class TestIt:\n    def test_a(self):\n        assert median([1])\n\n    class TestMore:\n"
        "        def test_b(self):\n            assert add(1, 1) == 2\n",
        None,
        NO_MEDIAN,
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_not_believed(lie: str):
    assert retired(*LIES[lie]) == ([], [])


def test_a_new_definition_elsewhere_may_be_the_old_one():
    assert retired(BASE, WITHOUT_MEDIAN, NO_MEDIAN, calc__more=["", "def middle(values):\n    return 0\n"]) == ([], [])


async def test_hostile_source_costs_a_process_and_nothing_else():
    deep = "(" * 5000 + ")" * 5000
    told = await run_apart("orchestrator.gating.subjects", told=json.dumps(asked(deep, deep, CORE)).encode())

    assert told in (None, b"{}")
