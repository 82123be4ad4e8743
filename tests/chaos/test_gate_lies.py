"""Changes that lie (`lab/lies.py`), before a gate whose commands run as plain processes of this host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.figures import report
from lab.lies import BASES, CORE, LIES, PYTEST_TESTS, Lie
from lab.schedule import SOAK
from lab.verdicts import Desk

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text()
# What a gate before the digest called verified, one of a kind; the others are for `make soak`.
SAMPLE = (
    "code replaced: one test's code (pytest)", "code replaced: one method's code (unittest)",
    "code replaced: a value that tests expect (pytest)", "assertions replaced: assertEqual (pytest)",
    "approx, raises, warns: raises (pytest)", "what the process tells: reads the pipe itself (pytest)",
)  # fmt: skip
TRIED = [lie for lie in LIES if SOAK or lie.id in SAMPLE]


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


def test_the_page_says_what_cannot_be_seen():
    rows = {lie.unseen for lie in LIES} - {""}
    section = PAGE.partition("## What the gate cannot see\n")[2].partition("\n## ")[0]

    assert [row for row in rows if f"| {row} |" not in section] == []


def test_there_are_many_and_each_has_a_name_of_its_own():
    assert len({lie.id for lie in LIES}) == len(LIES) >= 120
    assert set(SAMPLE) <= {lie.id for lie in LIES}


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
HONEST = {
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


ALWAYS = ("moved into a module of its own", "what is there only when it is asked for")


@pytest.mark.parametrize("name", HONEST if SOAK else ALWAYS)
async def test_honest_work_differs_in_nothing(desk, name: str):
    evidence = await desk("pytest").judge(HONEST[name], BASES["pytest"][0])

    assert (evidence.result, evidence.objections) == ("verified", ())
