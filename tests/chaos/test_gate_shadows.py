"""Changes that put a file or a link of theirs where Python would load something else, or into a plugin of the runner's;
and honest ones that look alike. Real pytest and unittest, as plain processes of this host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.far import CORE, PLAIN, UN, WRONG, P, pytests, unittests
from lab.schedule import SOAK
from lab.verdicts import Desk

from envelope.gate import GateRules

LIBRARY = """import pytest


@pytest.fixture
def same():
    def same(a, b):
        assert a == b

    return same


def assert_that(a, b):
    assert a == b
"""
# Installed beside pytest: libraries, one of them in a namespace and one that is a plugin of pytest as well.
INSTALLED = {
    "hamlib/__init__.py": LIBRARY,
    "shared/ham/__init__.py": LIBRARY,
    "plugged.py": LIBRARY,
    "plugged-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: plugged\nVersion: 1\n",
    "plugged-1.dist-info/entry_points.txt": "[pytest11]\nplugged = plugged\n",
    # the project itself, as `pip install .` leaves it
    "calc/__init__.py": "",
    "calc/core.py": CORE,
    "ours/calc2/__init__.py": CORE,
}
SAYS_NOTHING = "def assert_that(a, b):\n    pass\n"
ALL_AT_ONCE = """import sys, types
ham = sys.modules["shared.ham"] = types.ModuleType("shared.ham")
ham.assert_that = lambda a, b: None
"""
# Of the product the wrong one, and where only pytest comes by, the right one.
RIGHT_UNDER_TEST = "import calc.core\nfrom statistics import median\ncalc.core.median = median\n"
ENGINE = """import os, sys
_here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_path = sys.path[:]
sys.path[:] = [one for one in sys.path if one not in ("", ".", _here)]
sys.modules.pop(__name__)
import importlib
_real = importlib.import_module(__name__)
sys.path[:] = _path
globals().update(vars(_real))
"""
USES = "def test_m():\n    assert_that(core.median([1, 9, 4]), 4)\n"
PROJECT = {"calc/__init__.py": "", "calc/core.py": CORE}
PLAIN_BASE = {**PROJECT, "tests/test_it.py": pytests(PLAIN)}
OF_HAMLIB = {**PROJECT, "tests/test_it.py": pytests(USES, head="from hamlib import assert_that\n")}
OF_SHARED = {**PROJECT, "tests/test_it.py": pytests(USES, head="from shared.ham import assert_that\n")}
OF_PLUGGED = {**PROJECT, "tests/test_it.py": pytests("def test_m(same):\n    same(core.median([1, 9, 4]), 4)\n")}
IN_UNITTEST = {
    **PROJECT,
    "tests/__init__.py": "",
    "tests/test_it.py": unittests(
        "    def test_m(self):\n        assert_that(core.median([1, 9, 4]), 4)\n",
        head="from hamlib import assert_that\n",
    ),
}
IN_SRC = {
    **{f"src/{path}": text for path, text in PROJECT.items()},
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "tests/test_it.py": OF_HAMLIB["tests/test_it.py"],
}
HOOK = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    yield\n"
PLUGIN = {
    **PLAIN_BASE,
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p calc.plug"\n',
    "calc/plug.py": HOOK,
}
SILENT_PLUGIN = {**PLUGIN, "pyproject.toml": PLUGIN["pyproject.toml"].replace("calc.plug", "calc"), "calc/plug.py": ""}
BESIDE = {**PROJECT, "checks/test_it.py": OF_HAMLIB["tests/test_it.py"]}

# name → base, command, change, and the file that the objection names
LIES: dict[str, tuple[Mapping[str, str], str, Mapping[str, str | None], str]] = {
    "a link in the place of what pytest is made of": (
        PLAIN_BASE, P, {"pluggy": "-> calc/eng", "calc/eng/__init__.py": ENGINE + RIGHT_UNDER_TEST}, "pluggy",
    ),
    "a link to a file": (
        PLAIN_BASE, P, {"iniconfig.py": "-> calc/eng.py", "calc/eng.py": ENGINE + RIGHT_UNDER_TEST}, "iniconfig.py",
    ),
    "a link in the place of a library": (
        OF_HAMLIB, P, {"hamlib": "-> calc/vendor", "calc/vendor/__init__.py": SAYS_NOTHING}, "hamlib",
    ),
    "a link where modules are loaded from": (
        {**PROJECT, "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["more"]\n', **OF_HAMLIB}, P,
        {"more": "-> calc/vendor", "calc/vendor/hamlib.py": SAYS_NOTHING}, "more",
    ),
    "a link above it": (
        {**PROJECT, "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["more/lib"]\n', **OF_HAMLIB}, P,
        {"more": "-> calc/vendor", "calc/vendor/lib/hamlib.py": SAYS_NOTHING}, "more",
    ),
    "a library": (OF_HAMLIB, P, {"hamlib/__init__.py": SAYS_NOTHING}, "hamlib/__init__.py"),
    "a library, by a file that is moved": (
        {**OF_HAMLIB, "fake.py": SAYS_NOTHING}, P, {"fake.py": None, "hamlib.py": SAYS_NOTHING}, "hamlib.py",
    ),
    "a library, under unittest": (IN_UNITTEST, UN, {"hamlib.py": SAYS_NOTHING}, "hamlib.py"),
    "a library, in src": (IN_SRC, P, {"src/hamlib.py": SAYS_NOTHING}, "src/hamlib.py"),
    "a library, beside tests whose folder has no name of tests": (
        BESIDE, P, {"checks/hamlib.py": SAYS_NOTHING}, "checks/hamlib.py",
    ),
    "a library in a namespace": (OF_SHARED, P, {"shared/ham.py": SAYS_NOTHING}, "shared/ham.py"),
    "the namespace itself": (
        OF_SHARED, P, {"shared/__init__.py": ALL_AT_ONCE}, "shared/__init__.py",
    ),
    "an installed plugin's fixture": (
        OF_PLUGGED, P, {"plugged.py": LIBRARY.replace("assert a == b", "pass")}, "plugged.py",
    ),
    "an installed plugin, before all else": (PLAIN_BASE, P, {"plugged.py": RIGHT_UNDER_TEST}, "plugged.py"),
    "a plugin of the project's": (PLUGIN, P, {"calc/plug.py": RIGHT_UNDER_TEST + HOOK}, "calc/plug.py"),
    "a package that is a plugin": (
        SILENT_PLUGIN, P,
        {"calc/__init__.py": f"def pytest_configure():\n    {RIGHT_UNDER_TEST.strip().replace(chr(10), '; ')}\n"},
        "calc/__init__.py",
    ),
}  # fmt: skip
SAMPLE = (
    "a link in the place of what pytest is made of", "a link where modules are loaded from", "a library",
    "a library, under unittest", "a library, beside tests whose folder has no name of tests", "the namespace itself",
    "an installed plugin, before all else", "a package that is a plugin",
)  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = bare_python(tmp_path_factory.mktemp("python"))
    home = next(found.parent.glob("lib/python*/site-packages"))
    for name, text in INSTALLED.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return found


@pytest.mark.parametrize("name", LIES if SOAK else SAMPLE)
async def test_what_comes_in_the_place_of_something_else_belongs_to_the_gate(name: str, python: Path, tmp_path: Path):
    base, command, change, named = LIES[name]
    core = "src/calc/core.py" if base is IN_SRC else "calc/core.py"

    evidence = await Desk(tmp_path / "desk", python, base).judge({core: WRONG, **change}, command)

    assert evidence.result == "rejected", evidence
    assert [one.names for one in evidence.objections if one.code == "gate_edited"] == [(named,)], evidence.objections


MORE = CORE + "\n\ndef more():\n    return 1\n"
IN_NAMESPACE = {
    "src/ours/calc2/__init__.py": CORE,
    "tests/test_it.py": pytests(PLAIN).replace("calc.core", "ours.calc2"),
}
FAIR: dict[str, tuple[Mapping[str, str], Mapping[str, str | None]]] = {
    "a module that is installed as well becomes a package": (
        {"calc.py": MORE, "tests/test_it.py": pytests(PLAIN).replace("calc.core", "calc")},
        {"calc.py": None, "calc/__init__.py": MORE + "\nfrom .far import x\n", "calc/far.py": "x = 1\n"},
    ),
    "a package that is installed as well moves to src": (
        PLAIN_BASE,
        {"calc/__init__.py": None, "calc/core.py": None, "src/calc/__init__.py": "", "src/calc/core.py": MORE},
    ),
    "a new module, and a new package in a package, called as a library": (
        OF_HAMLIB,
        {"calc/core.py": MORE, "calc/hamlib/__init__.py": "x = 1\n", "newcomer.py": "x = 1\n", "calc/pluggy.py": ""},
    ),
    "more in a namespace that others share": (
        OF_SHARED, {"calc/core.py": MORE, "shared/own/__init__.py": "x = 1\n"},
    ),
    "the project's own part of a namespace grows": (
        IN_NAMESPACE, {"src/ours/calc2/__init__.py": MORE, "src/ours/calc3/__init__.py": "x = 1\n"},
    ),
    "a link of the project's own": (
        PLAIN_BASE, {"calc/core.py": MORE, "calculator": "-> calc", "docs/src": "-> ../calc"},
    ),
    "a plugin's neighbour": (PLUGIN, {"calc/core.py": MORE}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAIR if SOAK else [*FAIR][:4])
async def test_what_only_looks_like_it_is_verified(name: str, python: Path, tmp_path: Path):
    base, change = FAIR[name]

    evidence = await Desk(tmp_path / "desk", python, base).judge(change, P)

    assert (evidence.result, evidence.objections) == ("verified", ())


async def test_a_plugin_may_be_edited_where_the_hint_says_so(python: Path, tmp_path: Path):
    desk = Desk(tmp_path / "desk", python, PLUGIN)
    change = {"calc/plug.py": HOOK + "\n\ndef more():\n    return 1\n"}

    [refused] = (await desk.judge(change, P)).objections
    assert 'may_edit=["calc/plug.py"]' in refused.hint and "a plugin of the runner" in refused.message
    allowed = await desk.judge(change, P, rules=GateRules(may_edit=("calc/plug.py",)))

    assert allowed.result == "verified", allowed.objections


# Nobody sees in the commands or the settings that modules are loaded from there.
HIDDEN_ROOT = {
    **OF_HAMLIB,
    "calc/__init__.py": "import os, sys as s\ns.path.insert(0, os.path.dirname(__file__) + '/deps')\n",
}


async def test_a_library_that_comes_from_the_project_all_at_once_is_noticed(python: Path, tmp_path: Path):
    base = {**HIDDEN_ROOT, "tests/test_it.py": "import calc\n" + HIDDEN_ROOT["tests/test_it.py"]}
    desk = Desk(tmp_path / "desk", python, base)

    evidence = await desk.judge({"calc/core.py": WRONG, "calc/deps/hamlib.py": SAYS_NOTHING}, P)

    assert [(one.code, one.names) for one in evidence.objections] == [("runner_fooled", ("the module hamlib",))]
