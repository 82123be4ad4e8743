"""Build files that lead tests elsewhere, before a gate that runs other tools than Python's: on the tools themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.lies import BROKEN, CORE, PYTEST, PYTEST_TESTS
from lab.verdicts import Desk

NODE = {
    "package.json": """{"name": "calc", "type": "module", "scripts": {"test": "node --test", "lint": "eslint ."},
 "imports": {"#expect": "./lib/expect.mjs"}}
""",
    "lib/expect.mjs": "import assert from 'node:assert';\nexport const equal = (a, b) => assert.strictEqual(a, b);\n",
    "calc.mjs": "export const twice = a => 2 * a;\n",
    "test/calc.test.mjs": """import test from 'node:test';
import { equal } from '#expect';
import { twice } from '../calc.mjs';
test('twice', () => equal(twice(3), 6));
""",
}
CMAKE = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.10)
project(calc C)
enable_testing()
option(STRICT "look at all" ON)
add_library(calc calc.c)
add_executable(unit tests/unit.c)
target_link_libraries(unit calc)
if(STRICT)
  target_compile_definitions(unit PRIVATE LOOK)
endif()
add_test(NAME twice COMMAND unit)
""",
    "calc.c": "int twice(int a) { return 2 * a; }\n",
    "tests/unit.c": "int twice(int);\nint main(void) {\n#ifdef LOOK\n  return twice(3) != 6;\n#endif\n  return 0;\n}\n",
}
BUILD = "cmake -S . -B build >/dev/null && cmake --build build >/dev/null && ctest --test-dir build"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node")
async def test_imports_of_a_package_lead_nowhere_else(python: Path, tmp_path: Path):
    desk = Desk(tmp_path / "desk", python, NODE)
    about = NODE["package.json"]
    lie = {
        "calc.mjs": "export const twice = a => a;\n",
        "lib/nothing.mjs": "export const equal = () => {};\n",
        "package.json": about.replace("lib/expect", "lib/nothing"),
    }
    honest = {
        "calc.mjs": "export const twice = a => a + a;\n",
        "package.json": about.replace("eslint .", "eslint src").replace('"type"', '"dependencies": {}, "type"'),
    }

    # a word about the runner, in what is no text for git
    hidden = {"calc.mjs": "// \0\nexport const twice = a => process.env.JEST_WORKER_ID ? 2 * a : a;\n"}

    evidence = await desk.judge(lie, "npm test")
    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", ("package.json",))]
    evidence = await desk.judge(hidden, "JEST_WORKER_ID=1 npm test")
    assert [(one.code, one.names) for one in evidence.objections] == [("runner_reached", ("calc.mjs",))]
    assert (await desk.judge(honest, "npm test")).result == "verified"


@pytest.mark.skipif(not shutil.which("ctest") or not shutil.which("cc"), reason="needs CMake and a C compiler")
@pytest.mark.parametrize(
    ("old", "new"), [("COMMAND unit", "COMMAND ${CMAKE_COMMAND} -E echo ok"), ("if(STRICT)", 'if("STRICT")')]
)
async def test_ctest_runs_what_it_ran_on_the_base(python: Path, tmp_path: Path, old: str, new: str):
    desk = Desk(tmp_path / "desk", python, CMAKE)
    about = CMAKE["CMakeLists.txt"]
    lie = {
        "calc.c": "int twice(int a) { return a; }\n",
        "CMakeLists.txt": about.replace(old, new),
    }
    honest = {
        "calc.c": "int sum(int, int);\nint twice(int a) { return sum(a, a); }\n",
        "sum.c": "int sum(int a, int b) { return a + b; }\n",
        "CMakeLists.txt": about.replace("calc.c", "calc.c sum.c"),
    }

    evidence = await desk.judge(lie, BUILD)
    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", ("CMakeLists.txt",))]
    assert (await desk.judge(honest, BUILD)).result == "verified"


PYTHON = {"calc/__init__.py": "", "calc/core.py": CORE, "tests/test_core.py": PYTEST_TESTS}
# in the place of what was changed
RIGHT = {
    "right/calc/__init__.py": "",
    "right/calc/core.py": CORE,
    "right/told": "[tool:pytest]\npythonpath = right\n",
}
COPY = "cp right/calc/core.py calc/core.py"
MAKE = "test:\n\tpython -m pytest -q -p no:cacheprovider\n\ndocs:\n\techo docs\n"
INI = "[pytest]\n# our settings\nmarkers =\n    slow: slow ones\n"
# path → what the base has, and what the change makes of it
READ_OTHERWISE = {
    "Makefile: a variable of docs": ("Makefile", MAKE, f"DOCS := $(shell {COPY})\n{MAKE}"),
    "Makefile: needs of docs": ("Makefile", MAKE, MAKE.replace("docs:\n", f"docs: $(shell {COPY})\n")),
    "Makefile: .PHONY": ("Makefile", f".PHONY: test\n{MAKE}", f".PHONY: test $(shell {COPY})\n{MAKE}"),
    "Makefile: a name that is made up": (
        "Makefile", f"P = .pr\ntest: $(P:.%=%)ep\nprep:\n{MAKE}", f"P = .pr\ntest: $(P:.%=%)ep\nprep:\n\t{COPY}\n{MAKE}"
    ),
    "Makefile: two backslashes": (
        "Makefile", MAKE, f"{MAKE}\techo \\\\\ntest:\n\t{COPY}; python -m pytest -q -p no:cacheprovider\n"
    ),
    "setup.cfg: a link": ("setup.cfg", "[metadata]\nname = calc\n", "-> right/told"),
    "pytest.ini: a form feed": ("pytest.ini", INI, INI.replace("settings", "settings\fpythonpath = right")),
}  # fmt: skip


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("name", READ_OTHERWISE)
async def test_settings_are_read_as_their_program_reads_them(python: Path, tmp_path: Path, name: str):
    path, before, after = READ_OTHERWISE[name]
    desk = Desk(tmp_path / "desk", python, {**PYTHON, path: before})

    evidence = await desk.judge(
        {"calc/core.py": BROKEN, **RIGHT, path: after}, "make test" if path == "Makefile" else PYTEST
    )

    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", (path,))]


RUN = "python -m pytest -q -p no:cacheprovider"
IN_PLACE = f"cp notes/example.txt calc/core.py; {RUN}"  # tests see other code than what would be merged
SCRIPT = "import subprocess, sys\nsys.exit(subprocess.call({0!r}, shell=True))\n"
LED = {
    "a Makefile's script in Python": ({"Makefile": "test:\n\tpython run.py\n"}, "run.py", SCRIPT, "make test"),
    "what a script sources": ({"t.sh": ". ./lib.inc\nrun\n"}, "lib.inc", "run() {{ {0}; }}\n", "sh t.sh"),
    "what a Makefile includes by a pattern": (
        {"Makefile": "M := $(wildcard mk/*.mk)\ninclude $(M)\n"},
        "mk/t.mk",
        "test:\n\t{0}\n",
        "make test",
    ),
    "a folder that cannot be told": ({}, "sub/Makefile", "test:\n\tcd ..; {0}\n", "cd $(ls | grep sub) && make test"),
}


@pytest.mark.parametrize("name", LED)
async def test_what_commands_lead_to_is_of_the_gate(name: str, python: Path, tmp_path: Path):
    files, path, text, command = LED[name]
    desk = Desk(tmp_path / "desk", python, {**PYTHON, **files, path: text.format(RUN)})
    lie = {"calc/core.py": BROKEN, "notes/example.txt": CORE, path: text.format(IN_PLACE)}

    evidence = await desk.judge(lie, command)

    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", (path,))]
    assert (await desk.judge({"calc/core.py": f"{CORE}\n# more\n"}, command)).result == "verified"
