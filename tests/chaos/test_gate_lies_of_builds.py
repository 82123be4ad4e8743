"""Build files that lead tests elsewhere, before a gate that runs other tools than Python's: on the tools themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lab.bare import bare_python
from lab.lies import BROKEN, CORE, PYTEST_TESTS
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
add_library(calc calc.c)
add_executable(unit tests/unit.c)
target_link_libraries(unit calc)
add_test(NAME twice COMMAND unit)
""",
    "calc.c": "int twice(int a) { return 2 * a; }\n",
    "tests/unit.c": "int twice(int);\nint main(void) { return twice(3) != 6; }\n",
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

    evidence = await desk.judge(lie, "npm test")
    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", ("package.json",))]
    assert (await desk.judge(honest, "npm test")).result == "verified"


@pytest.mark.skipif(not shutil.which("ctest") or not shutil.which("cc"), reason="needs CMake and a C compiler")
async def test_ctest_runs_what_it_ran_on_the_base(python: Path, tmp_path: Path):
    desk = Desk(tmp_path / "desk", python, CMAKE)
    about = CMAKE["CMakeLists.txt"]
    lie = {
        "calc.c": "int twice(int a) { return a; }\n",
        "CMakeLists.txt": about.replace("COMMAND unit", "COMMAND ${CMAKE_COMMAND} -E echo ok"),
    }
    honest = {
        "calc.c": "int sum(int, int);\nint twice(int a) { return sum(a, a); }\n",
        "sum.c": "int sum(int a, int b) { return a + b; }\n",
        "CMakeLists.txt": about.replace("calc.c", "calc.c sum.c"),
    }

    evidence = await desk.judge(lie, BUILD)
    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", ("CMakeLists.txt",))]
    assert (await desk.judge(honest, BUILD)).result == "verified"


RUN = "python -m pytest -q -p no:cacheprovider"
IN_PLACE = f"cp notes/example.txt calc/core.py; {RUN}"  # tests see other code than what would be merged
CALC = {"calc/__init__.py": "", "calc/core.py": CORE, "tests/test_core.py": PYTEST_TESTS}
SCRIPT = "import subprocess, sys\nsys.exit(subprocess.call({0!r}, shell=True))\n"
LED = {
    "a Makefile's script in Python": ({"Makefile": "test:\n\tpython run.py\n"}, "run.py", SCRIPT, "make test"),
    "what a script sources": ({"t.sh": ". ./lib.inc\nrun\n"}, "lib.inc", "run() {{ {0}; }}\n", "sh t.sh"),
    "a folder that cannot be told": ({}, "sub/Makefile", "test:\n\tcd ..; {0}\n", "cd $(ls | grep sub) && make test"),
}


@pytest.mark.parametrize("name", LED)
async def test_what_commands_lead_to_is_of_the_gate(name: str, python: Path, tmp_path: Path):
    files, path, text, command = LED[name]
    desk = Desk(tmp_path / "desk", python, {**CALC, **files, path: text.format(RUN)})
    lie = {"calc/core.py": BROKEN, "notes/example.txt": CORE, path: text.format(IN_PLACE)}

    evidence = await desk.judge(lie, command)

    assert [(one.code, one.names) for one in evidence.objections] == [("gate_edited", (path,))]
    assert (await desk.judge({"calc/core.py": f"{CORE}\n# more\n"}, command)).result == "verified"
