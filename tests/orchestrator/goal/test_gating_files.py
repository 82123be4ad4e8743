"""What a diff touches: tests, the gate itself, its runner. Tables, on diffs that real git made where it matters."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from envelope.gate import GateRules
from orchestrator.gating.change import inspect
from orchestrator.gating.commands import roots_in, scripts_in
from orchestrator.gating.control import BaseRun
from orchestrator.gating.diff import joined, parts_of, without
from orchestrator.gating.makefiles import what_goals_reach
from orchestrator.gating.names import is_gate_file, is_test_file
from orchestrator.gating.runner_access import RunnerAccess, runner_access
from orchestrator.gating.scripts import ANYTHING, invoked_by, programs_in
from orchestrator.gating.settings_of import has_other_settings
from orchestrator.gating.shadows import ImportRoots, importable_names, shadowed
from orchestrator.gating.trees import Trees
from repo.mirror import Mirror

NO_MIRROR = Trees(None, "", "")


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py",
        "pkg/test/data.json",
        "a/test_x.py",
        "x_test.go",
        "ui/b.spec.ts",
        "ui/b.test.mts",
        "src/FooTest.java",
    ],
)
def test_a_test_file_is_known_by_its_folder_or_name(path: str):
    assert is_test_file(path)


@pytest.mark.parametrize("path", ["src/contest.py", "latest.py", "attest/a.py", "testimony.md", "src/protest.go"])
def test_what_only_sounds_like_a_test_is_none(path: str):
    assert not is_test_file(path)


def test_a_person_may_name_more_tests():
    assert is_test_file("checks/a.py", ("checks/**",))


@pytest.mark.parametrize(
    "path",
    ["conftest.py", "tests/conftest.py", "pytest.ini", "tox.ini", "a/sitecustomize.py", "x.pth", ".coveragerc",
     "sitecustomize/__init__.py", "usercustomize/__init__.py", "lib/sitecustomize.pyc",
     "jest.config.ts", "node_modules/jest/bin/jest.js", ".venv/bin/pytest", "venv/lib/x.py", "ruff.toml",
     ".cargo/config.toml", ".bundle/config", "x.egg-info/entry_points.txt", "x-1.dist-info/entry_points.txt"],
)  # fmt: skip
def test_settings_of_runners_belong_to_the_gate(path: str):
    assert is_gate_file(path)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("pytest.py", True), ("pytest/__init__.py", True), ("_pytest/main.py", False), ("src/unittest.py", True),
     ("tests/json.py", True), ("app/json.py", False), ("json.txt", False), ("calc.py", False),
     ("tests/__init__.py", False), ("sub/pytest.py", False), ("pluggy", False), ("__init__.py", False),
     ("pytest/__init__.cpython-311-x86_64-linux-gnu.so", True), ("pluggy.pyc", True), ("json.abi3.so", True)],
)  # fmt: skip
def test_a_new_module_may_stand_in_the_place_of_a_runners(path: str, is_one: bool):
    assert bool(shadowed(path, ImportRoots(), importable_names())) is is_one


def test_the_gates_own_folder_is_one_that_modules_are_loaded_from():
    assert shadowed("sub/pytest.py", ImportRoots(frozenset({"sub"})), ["pytest"])


INI = "[tool.pytest.ini_options]\n"


@pytest.mark.parametrize(
    ("name", "before", "after", "is_other"),
    [
        ("pyproject.toml", '[project]\nversion = "1"\n', '[project]\nversion = "2"\n', False),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", '[tool.pytest.ini_options]\naddopts = "-k x"\n', True),
        ("pyproject.toml", "", '[project.entry-points.pytest11]\nx = "x"\n', True),
        ("pyproject.toml", '[tool.poetry]\nname = "a"\n', '[tool.poetry]\nname = "b"\n', False),
        ("pyproject.toml", "", "not toml =", True),
        ("pyproject.toml", f"{INI}markers = []\n", f'{INI}markers = ["slow: takes long"]\n', False),
        ("pyproject.toml", INI, f'{INI}markers = ["slow"]\naddopts = "-m fast"\n', True),
        ("pyproject.toml", "", f'{INI}markers = ["slow"]\n', True),  # pytest reads no other file then
        ("pytest.ini", "[pytest]\n", "[pytest]\nmarkers =\n    slow: takes long\n    fast: does not\n", False),
        ("pytest.ini", "[pytest]\n", "[pytest]\nmarkers = slow\nxfail_strict = false\n", True),
        ("tox.ini", "[pytest]\nmarkers = a\n", "[pytest]\nmarkers = b\n", False),
        ("setup.cfg", "[tool:pytest]\n", "[tool:pytest]\nmarkers = slow\n", False),
        ("setup.cfg", "[metadata]\nversion = 1\n", "[metadata]\nversion = 2\n", False),
        ("setup.cfg", "", "[tool:pytest]\naddopts = -x\n", True),
        ("setup.cfg", "", "[options.entry_points]\npytest11 =\n  x = x\n", True),
        ("setup.cfg", "", "[options.entry_points]\nconsole_scripts =\n  x = x:main\n", False),
        ("pyproject.toml", "", '[tool.poetry.plugins.pytest11]\nx = "x"\n', True),
        ("package.json", '{"packageManager": "npm@9.1.0"}', '{"packageManager": "npm@9.2.0+sha512.a"}', False),
        ("package.json", '{"packageManager": "npm@9.1.0"}', '{"packageManager": "npm@https://x"}', True),
        ("package.json", '{"version": "1"}', '{"version": "2"}', False),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("Cargo.toml", '[dependencies]\na = "1"\n', '[dependencies]\na = "2"\n', False),
        ("Cargo.toml", "", "[lib]\ntest = false\n", True),
    ],
)
def test_of_a_mixed_file_only_the_gates_part_counts(name: str, before: str, after: str, is_other: bool):
    assert has_other_settings(name, before.encode(), after.encode(), ANYTHING) is is_other


@pytest.mark.parametrize("name", ["pytest.ini", "tox.ini", "setup.cfg"])
@pytest.mark.parametrize(
    ("old", "new", "is_other"),
    [
        *(("ours", f"ours{end}pythonpath = right", True) for end in "\f\v\r\x1c\x85\u2028\u2029"),
        ("slow one", "slow one\vpythonpath = right", True),
        ("filterwarnings", "Filterwarnings", True),
        ("[other]", "[other] x\npythonpath = right\n[other]", True),
        ("slow one", "slow one\n    fast: fast one", False),
        ("ours", "our own; [pytest] of x = y", False),
        ("\n", "\r\n", False),
    ],
)
def test_an_ini_file_is_read_as_pytest_reads_it(name: str, old: str, new: str, is_other: bool):
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    other = "metadata" if name == "setup.cfg" else "gh-actions"
    text = f"[{section}]\n# ours\nfilterwarnings = error\nmarkers =\n    slow: slow one\n\n[other]\nx = y\n"
    before, after = (one.replace("[other]", f"[{other}]") for one in (text, text.replace(old, new)))
    asked = type(ANYTHING)(words=frozenset({"pytest"}))

    assert has_other_settings(name, before.encode(), after.encode(), asked) is is_other


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("./run-tests.sh --all", {"run-tests.sh", "scripts/inner.sh", "app.py"}),
        ("make -s test", {"Makefile", "scripts/inner.sh"}),
        ("npm test", {"package.json", "check.js"}),
        ("python -m tools.check", {"tools/check.py"}),
        ("python -m pytest tests/test_a.py", set()),
        ("cd scripts && sh ../run-tests.sh", {"run-tests.sh", "scripts/inner.sh", "app.py"}),
        ("make -C scripts", {"Makefile", "scripts/Makefile", "scripts/inner.sh"}),
        ("PYTHONPATH=tools:src python -m check", {"tools/check.py"}),
        ('PYTHONPATH="tools:$PYTHONPATH" python -m check', {"tools/check.py"}),
        ("PYTHONPATH=src python -m check", set()),
    ],
)
async def test_scripts_are_followed_from_the_commands(command: str, found: set[str]):
    files = {
        "run-tests.sh": b"sh scripts/inner.sh; python app.py",
        "scripts/inner.sh": b"pytest",
        "Makefile": b"test: app.py\n\tsh scripts/inner.sh\n",
        "package.json": b'{"main": "app.py", "scripts": {"test": "node check.js"}}',
        "check.js": b"", "app.py": b"", "tools/check.py": b"", "tests/test_a.py": b"",
        "scripts/Makefile": b"",
    }  # fmt: skip

    async def read(path: str) -> bytes | None:
        return files.get(path)

    assert (await invoked_by([command], folder="", among=files, read=read)).scripts == found


LED_BASE = dict.fromkeys(
    (
        *(
            "Makefile",
            "sub/Makefile",
            "sub/deep/Makefile",
            "ci.mk",
            "ci.ini",
            "rules.inc",
            "lib/lib.inc",
            "runtests.py",
        ),
        *(
            "ci_tool/__main__.py",
            "calc/core.py",
            "calc/other.py",
            "calc.c",
            "lib/setup.js",
            "lib/hooks/index.mjs",
            "web/package.json",
        ),
        *(
            "web/check.js",
            "tasks.py",
            "dodo.py",
            "tox.toml",
            "poe_tasks.toml",
            "Taskfile.dist.yml",
            "rakefile",
            "noxfile.py",
        ),
        *("requirements.txt", "README.md", "my tools/check.py", "tests/data.py", "hatch.toml", "package.json"),
    ),
    "",
)


PROGRAM = "[project.scripts]\nunit = 'calc.core:main'\n"
MAKEABLE = {"ci.mk", "ci.ini", "rules.inc", "lib/lib.inc", "sub/Makefile", "sub/deep/Makefile", "rakefile"}


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        # what a followed script runs, sources or obeys
        ("make test", {"Makefile": "test:\n\tpython runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "PYTHON ?= python3\ntest:\n\t@$(PYTHON) -W error runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\t$(VENV)/bin/python runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "S = runtests.py\ntest:\n\t$(PYTHON) $(S)\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tcoverage run --source calc runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tpython -m coverage run runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tuv run --with x runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\txvfb-run -a python runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tsh -c 'python runtests.py'\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tsome-runner runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\t./runtests.py\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tfor f in runtests.py; do python $$f; done\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "test:\n\tpython -mci_tool\n"}, {"ci_tool/__main__.py"}),
        ("make test", {"Makefile": "test:\n\tpython -um ci_tool\n"}, {"ci_tool/__main__.py"}),
        ("make test", {"Makefile": "test:\n\tpytest -cci.ini\n"}, {"ci.ini"}),
        ("make test", {"Makefile": "test:\n\tpytest -c ci.ini calc/core.py\n"}, {"ci.ini"}),
        ("make test", {"Makefile": "include rules.inc\n"}, {"rules.inc"}),
        ("make test", {"Makefile": "-include $(TOP)/rules.inc ci.mk\n"}, {"rules.inc", "ci.mk"}),
        ("make test", {"Makefile": "test:\n\t$(MAKE) -C sub\n"}, {"sub/Makefile"}),
        ("make -C sub", {"sub/Makefile": "test:\n\t$(MAKE) -Cdeep\n"}, {"sub/Makefile", "sub/deep/Makefile"}),
        ("sh t.sh", {"t.sh": ". lib/lib.inc\n"}, {"t.sh", "lib/lib.inc"}),
        (
            "sh t.sh",
            {"t.sh": "HERE=$(cd \"$(dirname \"$0\")\" && pwd)\nsource \"$HERE/lib/lib.inc\"\n"},
            {"t.sh", "lib/lib.inc"},
        ),
        ("sh t.sh", {"t.sh": "if [ -f x ]; then . \"${BASH_SOURCE%/*}/lib/lib.inc\"; fi\n"}, {"t.sh", "lib/lib.inc"}),
        ("python t.py", {"t.py": "subprocess.run([sys.executable, 'runtests.py'])\n"}, {"t.py", "runtests.py"}),
        ("python t.py", {"t.py": "session.run(\n    'python',\n    'runtests.py',\n)\n"}, {"t.py", "runtests.py"}),
        ("nox", {"noxfile.py": "session.run('python', '-m', 'ci_tool')\n"}, {"noxfile.py", "ci_tool/__main__.py"}),
        ("sh t.sh", {"t.sh": "for f in calc/*.py; do python $f; done\n"}, {"t.sh", "calc/core.py", "calc/other.py"}),
        ("sh t.sh", {"t.sh": "for f in calc/*.py; do wc $f; done\n"}, {"t.sh"}),
        ("sh t.sh", {"t.sh": "BASH_ENV=lib/lib.inc bash -c true\n"}, {"t.sh", "lib/lib.inc"}),
        ("make test", {"Makefile": "include */*.inc\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "RUN = some-runner runtests.py\ntest:\n\t$(RUN)\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "RUN = ./runtests.py -a\ntest:\n\t$(RUN)\n"}, {"runtests.py"}),
        ("make test", {"Makefile": "SHELL = ./lib/lib.inc\ntest:\n\tpytest\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "test:\n\t.venv/bin/python -m pip install -r requirements.txt\n"}, set()),
        ("python t.py", {"t.py": "run('python', other)\nrun(f'cd {ROOT} && python {core}')\n"}, {"t.py"}),
        ("make test", {"Makefile": "test:\n\t@echo see (docs/x.md)\n", "docs/x.md": "`calc/core.py` runs"}, set()),
        ("make test", {"Makefile": "SRC = calc/core.py calc/other.py\ntest:\n\tpytest $(SRC)\n"}, set()),
        # what is included, as far as that can be told
        ("make test", {"Makefile": "include $(wildcard lib/*.inc)\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "-include $(sort $(wildcard lib/*.inc))\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "M := $(wildcard lib/*.inc) ci.mk\ninclude $(M)\n"}, {"lib/lib.inc", "ci.mk"}),
        ("make test", {"Makefile": "M = rules.inc\nM += ci.mk\ninclude $M ${M}\n"}, {"rules.inc", "ci.mk"} | MAKEABLE),
        ("make test", {"Makefile": "include $(addprefix lib/,lib.inc)\n"}, MAKEABLE),
        ("make test", {"Makefile": "include $(dir $(lastword $(MAKEFILE_LIST)))*.mk\n"}, MAKEABLE),
        ("make test", {"Makefile": "-include $(LOCAL)\n"}, MAKEABLE),
        ("make -Ilib test", {"Makefile": "include lib.inc\n"}, {"lib/lib.inc"}),
        ("just test", {"justfile": "import? 'rules.inc'\nmod lib\n", "lib/mod.just": ""},
         {"justfile", "rules.inc", "lib/mod.just"}),
        ("just test", {"justfile": "set dotenv-filename := 'check.env'\n", "check.env": ""}, {"justfile", "check.env"}),
        # what a text names that is no source and no data
        ("make test", {"Makefile": "test:\n\t@. lib/lib.inc; pytest\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "test:\n\t@source lib/lib.inc\n"}, {"lib/lib.inc"}),
        ("make test", {"Makefile": "test:\n\t@for f in calc/c*.py; do python $$f; done\n"}, {"calc/core.py"}),
        ("make test", {"Makefile": "export BASH_ENV := README.md\n"}, {"README.md"}),
        ("make test", {"Makefile": "export PYTEST_ADDOPTS := -c ci.ini\n"}, {"ci.ini"}),
        ("sh t.sh", {"t.sh": "export BASH_ENV=README.md\n"}, {"t.sh", "README.md"}),
        ("sh t.sh", {"t.sh": "find calc -name '*.py' -exec python {} +\n"}, {"t.sh", "calc/core.py", "calc/other.py"}),
        ("sh t.sh", {"t.sh": "ls calc/*.py | xargs -n1 python\n"}, {"t.sh", "calc/core.py", "calc/other.py"}),
        ("sh t.sh", {"t.sh": "cat lib/lib.inc | sh\n"}, {"t.sh", "lib/lib.inc"}),
        ("python -m pytest @requirements.txt", {}, {"requirements.txt"}),
        ("make test", {"Makefile": "test:\n\tpytest @requirements.txt\n"}, {"requirements.txt"}),
        ("poe test", {"pyproject.toml": "[tool.poe]\ninclude = 'ci.toml'\nenvfile = 'check.env'\n", "ci.toml": "",
                      "check.env": ""}, {"poe_tasks.toml", "pyproject.toml", "ci.toml", "check.env"}),
        ("tox -e py", {"tox.ini": "[testenv]\nset_env = file|check.env\n", "check.env": ""},
         {"tox.toml", "tox.ini", "check.env"}),
        # programs by their paths, and modules
        ("task test", {"Taskfile.yml": "tasks:\n  test:\n    cmds: [calc/core.py]\n    sources: [calc/other.py]\n"},
         {"Taskfile.yml", "Taskfile.dist.yml", "calc/core.py"}),
        ("task test", {"Taskfile.yml": "sources:\n  - calc/other.py\ncmds:\n  - calc/core.py -v\n"},
         {"Taskfile.yml", "Taskfile.dist.yml", "calc/core.py"}),
        ("task test", {"Taskfile.yml": "includes:\n  ci:\n    taskfile: ./a/t.yml\n", "a/t.yml": "- calc/core.py"},
         {"Taskfile.yml", "Taskfile.dist.yml", "a/t.yml", "calc/core.py"}),
        ("task test", {"Taskfile.yml": "includes:\n  ci: ./a\n", "a/Taskfile.yml": ""},
         {"Taskfile.yml", "Taskfile.dist.yml", "a/Taskfile.yml"}),
        ("tox -e py", {"tox.ini": "[testenv]\ncommands =\n    calc/core.py --all\n"},
         {"tox.ini", "tox.toml", "calc/core.py"}),
        ("poe test", {"pyproject.toml": "[tool.poe.tasks]\ntest = 'calc/core.py'\n"},
         {"poe_tasks.toml", "pyproject.toml", "calc/core.py"}),
        ("poe test", {"pyproject.toml": "[tool.poe.tasks.test]\nscript = 'calc.core:main(1)'\n"},
         {"poe_tasks.toml", "pyproject.toml", "calc/core.py"}),
        ("poetry run unit", {"pyproject.toml": "[tool.poetry.scripts]\nunit = 'calc.core:main'\n"},
         {"pyproject.toml", "calc/core.py"}),
        ("make test", {"Makefile": "test:\n\tuv run unit\n", "pyproject.toml": PROGRAM},
         {"pyproject.toml", "calc/core.py"}),
        ("sh t.sh", {"t.sh": "find calc | xargs python -m pyupgrade\n"}, {"t.sh"}),
        ("uv run pytest --cov=unit", {"pyproject.toml": PROGRAM}, {"pyproject.toml"}),
        ("go run ./ci/gate", {"ci/gate/main.go": "", "ci/gate/b.go": "", "x/y.go": ""},
         {"ci/gate/main.go", "ci/gate/b.go"}),
        ("cargo run -p xtask", {"tools/xtask/src/main.rs": ""}, {"tools/xtask/src/main.rs"}),
        ("make test", {"Makefile": "export PYTHONPATH := ci_tool\ntest:\n\tpython -m unit\n", "ci_tool/unit.py": ""},
         {"ci_tool/unit.py"}),
        ("make test", {"Makefile": "test: a.ok\n%.ok: calc/%.py\n\tpython $<\n"}, {"calc/core.py", "calc/other.py"}),
        ("pnpm test", {"package.yaml": ""}, {"package.yaml"}),
        # what is data there
        ("make test", {"Makefile": "test: calc/core.py\n\tpytest calc/core.py\n"}, set()),
        ("make test", {"Makefile": "test:\n\truff check calc/core.py\n\tmypy --strict calc/core.py\n"}, set()),
        ("make test", {"Makefile": "test:\n\tcp calc/core.py out; cat README.md; wc -l calc/*.py\n"}, set()),
        ("make test", {"Makefile": "test:\n\t$(CC) -c calc.c\n\tgcc calc.c -o calc\n"}, set()),
        ("make test", {"Makefile": "test:\n\tpip install -r requirements.txt\n\tpandoc README.md\n"}, set()),
        ("make test", {"Makefile": "SRC = calc/core.py\n# python runtests.py\ntest:\n\tpytest\n"}, set()),
        ("make test", {"Makefile": "test:\n\tnode --check lib/setup.js\n\tpython -c 'x' runtests.py\n"}, set()),
        ("make test", {"Makefile": "test:\n\tpython -m pytest $(ARGS)\n"}, set()),
        ("make test", {"Makefile": "test:\n\tpython tests/data.py\n"}, set()),
        ("pre-commit run", {".pre-commit-config.yaml": "files: calc/core.py\n"}, {".pre-commit-config.yaml"}),
        # folders
        ('cd "sub" && make test', {}, {"sub/Makefile"}),
        ("cd 'sub' && cd deep && make", {}, {"sub/Makefile", "sub/deep/Makefile"}),
        ("make -Csub", {}, {"sub/Makefile"}),
        ('make --directory="sub"', {}, {"sub/Makefile"}),
        ("env --chdir=sub make test", {}, {"sub/Makefile"}),
        ("env -Csub make test", {}, {"sub/Makefile"}),
        ("D=sub; cd $D && make test", {}, {"sub/Makefile"}),
        ("cd $D && make test", {}, {"sub/Makefile", "sub/deep/Makefile"}),
        ("make -C `dirname $D`", {}, {"sub/Makefile", "sub/deep/Makefile"}),
        ('cd "$(find . -name x)" && make test', {}, {"sub/Makefile", "sub/deep/Makefile"}),
        ("cd $D && python core.py", {}, {"calc/core.py"}),
        ('cd "my tools" && python check.py', {}, {"my tools/check.py"}),
        ("cd my\\ tools && python check.py", {}, {"my tools/check.py"}),
        # words
        ("make -fci.mk test", {}, {"ci.mk"}),
        ("make --file=ci.mk test", {}, {"ci.mk"}),
        ("python -mci_tool", {}, {"ci_tool/__main__.py"}),
        ("python ci_tool", {}, {"ci_tool/__main__.py"}),
        ("pytest -cci.ini", {}, {"ci.ini"}),
        ("node -r ./lib/setup --test", {}, {"lib/setup.js"}),
        ("node --import=./lib/hooks x", {}, {"lib/hooks/index.mjs"}),
        ("node --loader ./lib/hooks x", {}, {"lib/hooks/index.mjs"}),
        ("NODE_OPTIONS='-r ./lib/setup' mocha", {}, {"lib/setup.js"}),
        ("npm test", {"package.json": '{"scripts": {"test": "node -r ./lib/setup --test"}}'}, {"lib/setup.js"}),
        # managers and runners of tasks
        (
            "yarn --cwd web test",
            {"web/package.json": '{"scripts": {"test": "node check.js"}}'},
            {"web/package.json", "web/check.js"},
        ),
        ("pnpm --dir web test", {}, {"web/package.json"}),
        ("pnpm --filter web test", {}, {"web/package.json"}),
        ("yarn workspace web test", {}, {"web/package.json"}),
        ("bun --cwd=web run test", {}, {"web/package.json"}),
        ("inv test", {"tasks.py": "c.run('python runtests.py')\n"}, {"tasks.py", "runtests.py"}),
        ("doit", {"dodo.py": "{'actions': ['make test']}\n"}, {"dodo.py"}),
        ("tox -e py", {"tox.toml": 'commands = [["python", "runtests.py"]]\n'}, {"tox.toml", "runtests.py"}),
        (
            "tox -e py",
            {"pyproject.toml": "[tool.tox]\nlegacy_tox_ini = '\'\'\n[testenv]\ncommands = python runtests.py\n'\'\'\n"},
            {"tox.toml", "pyproject.toml", "runtests.py"},
        ),
        (
            "poe test",
            {"pyproject.toml": "[tool.poe.tasks.test]\ncmd = 'python check.py'\ncwd = 'web'\n", "web/check.py": ""},
            {"poe_tasks.toml", "pyproject.toml", "web/check.py"},
        ),
        ("pdm run test", {"pyproject.toml": "[tool.pdm.scripts]\ntest = {cmd = ['python', 'runtests.py']}\n"},
         {"pyproject.toml", "runtests.py"}),
        ("poe test", {}, {"poe_tasks.toml"}),
        ("NODE_OPTIONS=--require=./lib/setup mocha", {}, {"lib/setup.js"}),
        ("hatch test", {}, {"hatch.toml"}),
        ("task test", {}, {"Taskfile.dist.yml"}),
        ("rake test", {}, {"rakefile"}),
        ("moon ci", {}, {"sub/Makefile", "sub/deep/Makefile", "web/package.json", "tasks.py", "noxfile.py", "tox.toml",
                         "dodo.py", "poe_tasks.toml", "Taskfile.dist.yml", "rakefile", "hatch.toml"}),
    ],
)  # fmt: skip
async def test_what_commands_and_scripts_run_is_followed_and_what_they_read_is_not(command, files, found):
    base = LED_BASE | files

    async def read(path: str) -> bytes | None:
        return base[path].encode()

    scripts = (await invoked_by([command], folder="", among=base, read=read)).scripts
    assert scripts - {"Makefile", "package.json"} == found


async def test_scripts_that_are_too_many_to_look_into_count_all_the_same():
    files = {f"ci/{n}.sh": b"true" for n in range(200)} | {"sub/Makefile": b""}

    async def read(path: str) -> bytes | None:
        return files[path]

    commands = ["; ".join(f"sh ci/{n}.sh" for n in range(200))]
    invoked = await invoked_by(commands, folder="", among=files, read=read)
    assert invoked.scripts == {f"ci/{n}.sh" for n in range(200)}
    assert (invoked.goals, invoked.words) == (None, None)


@pytest.mark.parametrize(
    "command", ["yarn --cwd web test", "npm -C web test", "pnpm --filter a test", "yarn --top x test"]
)
def test_scripts_of_another_package_cannot_be_told(command: str):
    assert scripts_in([command]) is None


@pytest.mark.parametrize("command", ["npm --silent test", "npm run --if-present test", "yarn --frozen-lockfile test"])
def test_scripts_behind_plain_options_are_told(command: str):
    assert scripts_in([command]) == {"test"}


PYPROJECT = """[tool.black]
line-length = 88
[tool.pytest.ini_options]
addopts = "-q"
"""
TASKS = """[tool.tox.env.lint]
commands = ["ruff ."]
[tool.hatch.envs.default.scripts]
lint = "mypy ."
[tool.pytest.ini_options]
addopts = "-q"
"""
TOX = """[tox]
envlist = py,lint
[testenv]
commands = pytest {posargs}
[testenv:lint]
commands = ruff check
"""
MAKEFILE = """PYTHON ?= python
.PHONY: test docs

test: deps
\t$(PYTHON) -m pytest

deps:
\tpip install -e .

docs: deps
\tsphinx-build docs out

lint:
\tblack --check .
"""
PACKAGE = """{"scripts": {"test": "npm run build && jest", "build": "tsc", "docs": "typedoc", "pretest": "echo"}}"""


@pytest.mark.parametrize(
    ("command", "name", "before", "old", "new", "is_other"),
    [
        ("python -m pytest", "pyproject.toml", PYPROJECT, "88", "120", False),
        ("python -m pytest && black --check .", "pyproject.toml", PYPROJECT, "88", "120", True),
        ("python -m pytest --black", "pyproject.toml", PYPROJECT, "88", "120", True),
        ("hatch run check", "pyproject.toml", PYPROJECT, "88", "120", True),
        ("make test", "pyproject.toml", PYPROJECT, "88", "120", False),
        ("make lint", "pyproject.toml", PYPROJECT, "88", "120", True),
        ("python -m pytest", "pyproject.toml", PYPROJECT, "-q", "-k x", True),
        ("make test", "Makefile", MAKEFILE, "docs out", "docs web", False),
        ("make test", "Makefile", MAKEFILE, "black --check", "ruff check", False),
        ("make test lint", "Makefile", MAKEFILE, "black --check .", "true", True),
        ("make test", "Makefile", MAKEFILE, "-m pytest", "-c pass", True),
        ("make test", "Makefile", MAKEFILE, "pip install -e .", "true", True),
        ("make", "Makefile", MAKEFILE, "-m pytest", "-c pass", True),
        ("make test", "Makefile", MAKEFILE, "= python", "= echo", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "test: PYTHON = echo\nlint:", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "%: ; echo\nlint:", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "ifdef CI\nendif\nlint:", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "Makefile:\n\techo > $@\nlint:", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "SHELL = ./sh\nlint:", True),
        ("make test", "Makefile", MAKEFILE, "lint:", "SPHINXOPTS ?= -W\nhtml:\n\techo $(SPHINXOPTS)\nlint:", False),
        ("make test", "Makefile", MAKEFILE, "test docs", "docs test html", False),
        ("make test", "Makefile", MAKEFILE, "test docs", "docs", True),
        ("make $TARGET", "Makefile", MAKEFILE, "docs out", "docs web", True),
        ("sh -c 'make test'", "Makefile", MAKEFILE, "docs out", "docs web", True),
        ("make test > out 2>&1", "Makefile", MAKEFILE, "docs out", "docs web", False),
        ("make test PYTHON='nice python3 -m'", "Makefile", MAKEFILE, "docs out", "docs web", False),
        ("make test PYTHON=docs", "Makefile", MAKEFILE, "docs out", "docs web", True),
        ("make -f a.mk test", "Makefile", MAKEFILE, "black", "x; black", True),
        ("make -f a.mk test", "Makefile", MAKEFILE, "docs out", "docs web", False),
        ("make -C sub test", "Makefile", MAKEFILE, "black", "x; black", True),
        ("npm test", "package.json", PACKAGE, "typedoc", "typedoc --out web", False),
        ("npm test", "package.json", PACKAGE, "jest", "true", True),
        ("npm test", "package.json", PACKAGE, "tsc", "true", True),
        ("npm test", "package.json", PACKAGE, "echo", "cp fake node_modules", True),
        ("npm test", "package.json", PACKAGE, "docs", "postinstall", True),
        ("npm test", "package.json", PACKAGE, "docs", "dependencies", True),
        *((command, "package.json", PACKAGE, "jest", "true", True) for command in ("pnpm t", "npm it", "yarn test")),
        *((command, "package.json", PACKAGE, "typedoc", "x", False) for command in ("pnpm t", "npm t", "yarn test")),
        ("npx run-s test", "package.json", PACKAGE, "typedoc", "typedoc --out web", True),
        ("npx jest", "package.json", PACKAGE, "typedoc", "typedoc --out web", True),
        ("pytest", "tox.ini", TOX, "ruff check", "ruff check src", False),
        ("tox -e py", "tox.ini", TOX, "ruff check", "ruff check src", False),
        ("tox -e py", "tox.ini", TOX, "[testenv:lint]", "[testenv:docs]\ncommands = x\n[testenv:lint]", False),
        ("tox -e py,lint", "tox.ini", TOX, "ruff check", "true", True),
        ("tox", "tox.ini", TOX, "ruff check", "true", True),
        ("tox -e py", "tox.ini", TOX, "pytest {posargs}", "true", True),
        ("pytest", "tox.ini", TOX, "[tox]", "[pytest]\naddopts = -k x\n[tox]", True),
        ("pytest", "setup.cfg", "[flake8]\nmax = 79\n", "79", "99", False),
        ("pytest", "setup.cfg", "[tool:isort]\nmax = 79\n", "79", "99", False),
        ("isort . && pytest", "setup.cfg", "[tool:isort]\nmax = 79\n", "79", "99", True),
        ("pytest", "setup.cfg", "[tool:pytest]\nmax = 79\n", "79", "99", True),
        ("flake8 && pytest", "setup.cfg", "[flake8]\nmax = 79\n", "79", "99", True),
        ("python check.py", "pyproject.toml", PYPROJECT, "88", "120", True),
        ("python -m pytest", "pyproject.toml", TASKS, "ruff .", "ruff src", False),
        ("tox -e py", "pyproject.toml", TASKS, "ruff .", "ruff src", True),
        ("python -m pytest", "pyproject.toml", TASKS, "mypy .", "mypy src", False),
        ("hatch run lint", "pyproject.toml", TASKS, "mypy .", "mypy src", True),
        ("make lint", "pyproject.toml", TASKS, "mypy .", "mypy src", False),
        ("poetry run unit", "pyproject.toml", '[tool.poetry.scripts]\nunit = "ci.run:main"\n', "run", "other", True),
        ("poetry run pytest", "pyproject.toml", '[tool.poetry.scripts]\nunit = "ci.run:main"\n', "run", "other", False),
        ("uv run unit", "pyproject.toml", '[project.scripts]\nunit = "ci.run:main"\n', "run", "other", True),
        ("uv run pytest", "pyproject.toml", TASKS, "mypy .", "mypy src", False),
        ("pytest", "setup.cfg", "[tox:tox]\nenvlist = py\n", "py", "py,lint", False),
    ],
)
async def test_settings_count_as_far_as_the_commands_lead_to_them(command, name, before, old, new, is_other):
    files = {name: before.encode(), "check.py": b"import lint", "Makefile": MAKEFILE.encode()}
    files |= {"a.mk": b"test: lint\n", "sub/Makefile": b"include ../Makefile\ntest: lint\n"}

    async def read(path: str) -> bytes | None:
        return files.get(path)

    invoked = await invoked_by([command], folder="", among=files, read=read)
    assert old in before
    assert has_other_settings(name, files[name], before.replace(old, new).encode(), invoked) is is_other


@pytest.mark.parametrize(
    ("before", "after", "is_other"),
    [
        ("", "DOCS := $(shell cp a b)\n", True),
        ("", "DOCS := ${shell\tcp a b}\n", True),
        ("", "DOCS != cp a b\n", True),
        ("", "DOCS := $(file > b,a)\n", True),
        ("", "DOCS := -W\n", False),
        ("X = $(shell cp a b)\n", "X = $(shell cp a b)\nDOCS := $(X)\n", True),
        ("X = $(shell cp a b)\n", "X = $(shell cp a b)\nDOCS := -W\n", False),
        ("include a.mk\n", "include a.mk\nDOCS := $(X)\n", True),
        ("docs:\n", "docs: $(shell cp a b)\n", True),
        ("docs:\n", "docs: X := $(shell cp a b)\n", True),
        ("docs:\n", "docs: a\\# $(shell cp a b)\n", True),
        ("X = $(shell cp a b)\ndocs:\n", "X = $(shell cp a b)\ndocs: $(X)\n", True),
        ("V = $(shell date)\ndocs:\n", "V = $(shell date)\ndocs: deps\n\techo $(shell date)\nhtml: docs\n", False),
        ("docs:\n", "docs: $(PAGES)\n", True),
        (".PHONY: test\n", ".PHONY: test $(shell cp a b)\n", True),
        (".PHONY: test\n", ".PHONY: test docs # words\n", False),
        (".PHONY: test\n", ".PHONY: test\n.PHONY: X := $(shell cp a b)\n", True),
        ("docs:\n", "docs:: $(shell cp a b)\n", True),
        ("docs:\n", "docs: ; x\n", True),
        ("test: prep\nprep: ; @true\n", "test: prep\nprep: ; @true#x; cp a b\n", True),
        ("docs:\n", "docs:\ninclude docs: a.mk\n", True),
        ("docs:\n", "docs:\nexport docs: X\n", True),
        ("X = prep\ntest: $(X)\nprep:\n", "X = prep\ntest: $(X)\nprep:\n\tcp a b\n", True),
        ("X = prep\ntest: $(X)\ndocs:\n", "X = prep\ntest: $(X)\ndocs:\n\techo\n", False),
        ("X = prep\ntest: $(X)\nprep:\n", "test: $(X)\nX = prep\nprep:\n", True),
        # names that are made up
        *(
            (f"X = ep\n{head}\nprep:\n", f"X = ep\n{head}\nprep:\n\tcp a b\n", True)
            for head in (
                "test: $(X:%=pr%)",
                "test: pr$(X)",
                "test: $(addprefix pr,$(X))",
                "test: $(Y)",
                "test: ${Y}",
                "Y ?= $(X)\ntest: $(Y)",
                "Y = pr$(X)\ntest: $(Y)",
                "test: ext\n%xt: pr%p",
                "$(X): ; x\ntest: pr$X",
                "test: $(lastword $(MAKEFILE_LIST))",
                "test: .x/a\n.x/a: $(Y)",
            )
        ),
        ("test: ${VENV}/bin\ndocs:\n", "test: ${VENV}/bin\ndocs:\n\techo\n", False),
        ("test: X = $(Y)\ndocs:\n", "test: X = $(Y)\ndocs:\n\techo\n", False),
        ("test: %.o\n%.o: %.c\n\tcc $<\ndocs:\n", "test: %.o\n%.o: %.c\n\tcc $<\ndocs:\n\techo\n", False),
        ("docs:\n", "docs:\n\techo \\\\\ntest:\n\tcp a b\n", True),
        ("docs:\n", "docs:\n\techo \\\n\ttest:\n\tcp a b\n", False),
        ("docs:\n", "docs:\n\techo \\\r\n  more\n", False),
        ("docs:\n", "docs:\n\techo \0 \\\n  more\n", True),
        (".RECIPEPREFIX = >\ndocs:\n", ".RECIPEPREFIX = >\ndocs:\n\tX := $(shell cp a b)\n", True),
    ],
)
def test_of_a_makefile_counts_what_acts_while_it_is_read(before: str, after: str, is_other: bool):
    makefile = "test:\n\tpytest\n\n"
    assert (what_goals_reach(makefile + before, ["test"]) != what_goals_reach(makefile + after, ["test"])) is is_other


def test_the_rule_that_comes_first_is_the_one_without_a_name():
    first, second = "a:\n\tpytest\n", "b:\n\ttrue\n"

    assert what_goals_reach(first + second, [""]) == what_goals_reach(first, [""])
    assert what_goals_reach(second + first, [""]) != what_goals_reach(first, [""])


@pytest.mark.parametrize(
    ("command", "path", "is_edited"),
    [
        ("ruff check src/a.py && python -m pytest", "src/a.py", False),
        ("uv run ruff check --fix src/a.py", "src/a.py", False),
        ("python -m mypy --strict src/a.py", "src/a.py", False),
        (".venv/bin/black --check src/a.py", "src/a.py", False),
        ("python3.12 -W error -m pylint src/a.py", "src/a.py", False),
        ("python -m pytest --doctest-modules src/a.py", "src/a.py", False),
        ("python -m doctest src/a.py", "src/a.py", False),
        ("mypy src/a.py | tee out", "src/a.py", False),
        ("python src/a.py", "src/a.py", True),
        ("ruff check src/a.py; python src/a.py", "src/a.py", True),
        ("python -m pytest src/a.py", "src/a.py", True),
        ("pylint --load-plugins src/a.py src", "src/a.py", True),
        ("eslint -c src/a.js src", "src/a.js", True),
        ("coverage run src/a.py", "src/a.py", True),
        ("bash ci.sh", "ci.sh", True),
        ("env X=1 ./run", "run", True),
        ("timeout 60 ./run", "run", True),
        ("some-checker src/a.py", "src/a.py", True),
        ("bash ci/all.sh", "ci/lib.sh", True),
    ],
)
async def test_a_file_that_a_checker_looks_at_is_no_script(command: str, path: str, is_edited: bool):
    files = {path: b"x", "ci/all.sh": b'. "$(dirname "$0")/lib.sh"'}

    async def read(path: str) -> bytes | None:
        return files.get(path)

    invoked = await invoked_by([command], folder="", among=files, read=read)
    assert (path in invoked.scripts) is is_edited


def git(root: Path, *words: str) -> bytes:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(["git", *identity, "-C", str(root), *words], check=True, capture_output=True).stdout


@pytest.fixture
def diff(tmp_path: Path) -> bytes:
    """Of everything that git has a form of its own for."""
    git(tmp_path, "init", "-q")
    for name in ("edited.py", "gone.py", "old name.py", "ü.py", "mode.sh"):
        (tmp_path / name).write_text(f"{name}\n" * 9)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / "edited.py").write_text("diff --git a/fake b/fake\n--- a/x\n+++ b/x\n" + "edited.py\n" * 9)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "old name.py").rename(tmp_path / "new name.py")
    (tmp_path / "ü.py").write_text("other\n")
    (tmp_path / "mode.sh").chmod(0o755)
    (tmp_path / "binary").write_bytes(bytes(reversed(range(256))))
    (tmp_path / "empty.py").touch()
    git(tmp_path, "add", "-A")
    return git(tmp_path, "diff", "--cached", "-p", "-M", "--binary", "--full-index", "HEAD")


def test_a_diff_of_gits_is_split_by_file_and_put_together_again(diff: bytes):
    parts = parts_of(diff)

    assert {(part.status, part.old_path, part.path) for part in parts} == {
        ("M", None, "edited.py"), ("D", None, "gone.py"), ("R", "old name.py", "new name.py"), ("M", None, "ü.py"),
        ("M", None, "mode.sh"), ("M", None, "binary"), ("A", None, "empty.py"),
    }  # fmt: skip
    assert joined(parts) == diff


def test_a_file_is_left_out_of_a_diff_which_still_applies(diff: bytes, tmp_path: Path):
    rest, out = without(diff, lambda part: part.path in ("edited.py", "new name.py"))

    assert [part.path for part in out] == ["edited.py", "new name.py"]
    git(tmp_path, "reset", "-q", "--hard")
    subprocess.run(["git", "-C", str(tmp_path), "apply", "-"], input=rest, check=True)
    assert (tmp_path / "old name.py").exists() and (tmp_path / "edited.py").read_text() == "edited.py\n" * 9
    assert not (tmp_path / "gone.py").exists()


def edit(path: str, *lines: str, status: str = "") -> bytes:
    body = "".join(f"{line}\n" for line in lines)
    before, after = (sum(line[:1] in (" ", sign) for line in body.splitlines()) for sign in "-+")
    old, new = f"a/{path}" * ("new" not in status), f"b/{path}" * ("deleted" not in status)
    head = f"diff --git a/{path} b/{path}\n{status}--- {old or '/dev/null'}\n+++ {new or '/dev/null'}\n"
    return f"{head}@@ -1,{before} +1,{after} @@\n{body}".encode()


@pytest.mark.parametrize(
    "line",
    ["import _pytest", 'os.environ["PYTEST_ADDOPTS"] = ""', "os._exit(0)", "def pytest_runtest_makereport():",
     'TEST_RUNNER = "a.Runner"',
     "unittest.TestCase.run = run", 'sys.modules["pytest"] = None', 'path = "/tmp/junitxml"'],
)  # fmt: skip
def test_code_that_reaches_for_its_runner_is_shown(line: str):
    [part] = parts_of(edit("src/a.py", f"+{line}"))
    assert runner_access(part).reached == (f"src/a.py:1: {line}",)


@pytest.mark.parametrize("path", ["bin/add", "a.vue", "a.c", "a.ex", "a.pyw", "app/run", "a.unknown"])
def test_code_is_looked_at_whatever_its_name_ends_with(path: str):
    [part] = parts_of(edit(path, "+PYTEST_CURRENT_TEST"))
    assert runner_access(part).reached == (f"{path}:1: PYTEST_CURRENT_TEST",)


@pytest.mark.parametrize(
    "content",
    [edit("README.md", "+set PYTEST_ADDOPTS"), edit("tests/test_a.py", "+import _pytest"), edit("src/a.py", "+x = 1"),
     edit("Dockerfile", "+ENV PYTEST_ADDOPTS="), edit("LICENSE", "+_pytest"), edit("ci.yml", "+PYTEST_ADDOPTS: x"),
     edit("src/a.py", "-import _pytest", "+import _pytest  # moved")],
)  # fmt: skip
def test_words_tests_and_what_was_there_before_do_not_reach(content: bytes):
    [part] = parts_of(content)
    assert runner_access(part).reached == ()


async def inspected(diff: bytes, rules: GateRules = GateRules(), scope: tuple[str, ...] = ("edit:**",)):
    return await inspect(diff, NO_MIRROR, commands=["sh check.sh"], subpath="", rules=rules, scope=scope)


@pytest.mark.parametrize(
    ("diff", "rules", "named"),
    [
        (edit("check.sh", "+exit 0"), GateRules(), "check.sh"),
        (edit("conftest.py", "+x"), GateRules(), "conftest.py"),
        (edit("pyproject.toml", "+x"), GateRules(), "pyproject.toml"),
        (edit("pytest.py", "+x", status="new file mode 100644\n"), GateRules(), "pytest.py"),
        (edit("pytest.ini", "+", status="new file mode 100644\n"), GateRules(), "pytest.ini"),
        (edit("golden/a.txt", "+x"), GateRules(protect=("golden/**",)), "golden/a.txt"),
        (edit("out/report.xml", "+x"), GateRules(junit="out/*.xml"), "out/report.xml"),
    ],
)
async def test_an_edited_gate_is_an_objection(diff: bytes, rules: GateRules, named: str):
    [objection] = (await inspected(diff, rules)).objections

    assert (objection.code, objection.names) == ("gate_edited", (named,))
    assert "may_edit" in objection.hint


LINK, OTHER = "new file mode 120000\n", "new file mode 160000\n"
CHANGED_LINK = edit("src", "-a", "+b").replace(b"src\n---", b"src\nindex 1234567..89abcde 120000\n---")
MOVED = b"diff --git a/a/eng b/pluggy\nsimilarity index 100%\nrename from a/eng\nrename to pluggy\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (edit("pluggy", "+a/eng", status=LINK), "in the place of pluggy"),
        (edit("json", f"+Subproject commit {'1' * 40}", status=OTHER), "in the place of json"),
        (edit("tests/numpy.py", "+a/eng", status=LINK), "in the place of numpy"),
        (edit("lib/google", "+a/eng", status=LINK), "in the place of google"),
        (MOVED, "in the place of pluggy"),
        (edit("src", "+a/eng", status=LINK), "a link where modules are loaded from"),
        (edit("deep", "+a/eng", status=LINK), "a link where modules are loaded from"),
        (CHANGED_LINK, "a link where modules are loaded from"),
        (edit("numpy/__init__.py", "+", status="new file mode 100644\n"), "in the place of numpy"),
        (edit("google/protobuf/__init__.py", "+", status="new file mode 100644\n"), "in the place of google.protobuf"),
        (edit("pluggy", "+a/eng", status="new file mode 100644\n"), ""),
        (edit("numpy/linalg.py", "+", status="new file mode 100644\n"), ""),
        (edit("app/numpy", "+a/eng", status=LINK), ""),
        (edit("srcs", "+a/eng", status=LINK), ""),
        (edit("google/protobufs.py", "+", status="new file mode 100644\n"), ""),
        (edit("google/more.py", "+", status="new file mode 100644\n"), ""),
        (edit("numpy.py", "-a", "+b"), ""),
    ],
)
async def test_a_link_is_the_module_that_its_name_says_and_what_was_loaded_on_the_base_has_its_place(diff, why):
    found = await inspect(
        diff, NO_MIRROR, commands=["cd deep/down && python -m pytest"], subpath="", rules=GateRules(), scope=(),
        base_run=BaseRun(libraries=["numpy", "google.protobuf"]),
    )  # fmt: skip

    told = [(one.code, one.message.rpartition("(")[2].removesuffix(")")) for one in found.objections]
    assert told == ([("gate_edited", why)] if why else [])


@pytest.mark.parametrize(
    ("path", "attributes", "is_hidden"),
    [
        ("calc.mjs", "", True), ("src/a.py", "", True), ("a.py", "*.py -diff", True), ("src/a.png", "", False),
        ("tests/a.py", "", False), ("allowed.py", "", False), ("src/a.pyc", "", True), ("src/a.so", "", True),
        ("lib/a.jar", "", True), ("bin/add", "", True), ("src/model.pkl", "", True), ("src/a.db", "", False),
        ("src/__pycache__/a.cpython-312.pyc", "", False), ("docs/a.pdf", "", False), ("bin/add", "* -diff", True),
    ],
)  # fmt: skip
async def test_code_that_is_no_text_is_an_objection(path: str, attributes: str, is_hidden: bool, tmp_path: Path):
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text(f"{attributes}\n")
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("x = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / path).write_text("y = 1\n" if attributes else "// \0\nx = process.env.JEST_WORKER_ID\n")
    diff = git(tmp_path, "diff", "-p", "-M", "--binary", "--full-index", "HEAD")

    objections = (await inspected(diff, GateRules(may_edit=("allowed.py",)))).objections

    assert [(one.code, one.names) for one in objections] == ([("runner_reached", (path,))] if is_hidden else [])
    assert all("no text" in one.message and "may_edit" in one.hint for one in objections)


async def test_what_was_no_code_before_it_was_moved_is_looked_at_whole(tmp_path: Path):
    git(tmp_path, "init", "-q")
    (tmp_path / "snippet.txt").write_text("import os\nx = os.environ['PYTEST_CURRENT_TEST']\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    git(tmp_path, "mv", "snippet.txt", "helper.py")
    git(tmp_path, "commit", "-qm", "change")
    diff = git(tmp_path, "diff", "-p", "-M", "--full-index", "HEAD^", "HEAD")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD^", "HEAD")

    found = await inspect(diff, trees, commands=["pytest"], subpath="", rules=GateRules(), scope=("edit:**",))

    [objection] = found.objections
    assert (objection.code, objection.message.partition(": ")[2][:12]) == ("runner_reached", "helper.py:2:")


async def test_very_many_files_in_very_deep_folders_take_no_time():
    deep = "/".join("a" * 1500)
    new = "new file mode 100644\n"
    diff = b"".join(
        edit(f"{deep}/{number}/{name}.py", "+", status=new) for number in range(60) for name in ("__init__", "test_x")
    )
    began_s = time.process_time()

    await inspect(diff + edit("x", "+y", status=LINK), NO_MIRROR, commands=["pytest"], subpath="", rules=GateRules(),
                  scope=(), base_run=BaseRun(libraries=[f"lib{number}" for number in range(500)]))  # fmt: skip

    assert time.process_time() - began_s < 3


async def test_a_person_may_let_a_file_of_the_gate_be_edited():
    assert (await inspected(edit("check.sh", "+exit 0"), GateRules(may_edit=("check.sh",)))).objections == ()


@pytest.mark.parametrize(
    ("scope", "status", "is_judged"),
    [
        (("edit:**",), "", True),
        (("edit:src/**", "edit:tests/**"), "", False),
        (("edit:src/**", "edit:tests/test_a.py"), "", False),
        (("edit:**",), "new file mode 100644\n", True),
        (("edit:**",), "deleted file mode 100644\n", True),
    ],
)
async def test_edits_of_tests_are_judged_unless_a_grant_names_tests(scope, status: str, is_judged: bool):
    found = await inspected(edit("tests/test_a.py", "-x", "+y", status=status), scope=scope)

    assert [(file.path, file.added, file.removed) for file in found.test_files] == [("tests/test_a.py", 1, 1)]
    assert bool(found.judged) is is_judged


async def test_a_link_in_the_place_of_the_tests_belongs_to_them():
    gone = edit("tests/test_a.py", "-x", status="deleted file mode 100644\n")
    link = edit("tests", "+elsewhere", status="new file mode 120000\n")

    found = await inspected(gone + link + edit("elsewhere/test_a.py", "+x") + edit("src/a.py", "+x"))

    assert [part.path for part in found.judged] == ["tests/test_a.py", "tests", "elsewhere/test_a.py"]


def new_file(path: str, text: str):
    lines = [f"+{line}" for line in text.removesuffix("\n").split("\n")]
    [part] = parts_of(edit(path, *lines, status="new file mode 100644\n"))
    return runner_access(part, None, text)


@pytest.mark.parametrize(
    "text",
    [
        '"""Unset PYTEST_ADDOPTS first."""\n',
        'def run():\n    """Sets os._exit aside.\n\n    And _pytest.\n    """\n',
        "x = 1  # not PYTEST_CURRENT_TEST\n",
        'raise ValueError("PYTEST_ADDOPTS is set, unset it")\n',
        'HELP = "where junitxml reports are written"\n',
        'import subprocess\nprint("writes a junitxml report")\nsubprocess.run(["ls"])\n',
        'parser.add_argument("--out", help="as a junitxml file")\n',
        'log.debug(\n    "see PYTEST_ADDOPTS "\n    "and os._exit for more"\n)\n',
    ],
)
def test_what_is_only_said_of_a_runner_is_no_reach_for_it(text: str):
    assert new_file("src/a.py", text) == RunnerAccess()


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.environ["PYTEST_ADDOPTS"] = "-k nothing"\n',
        'NAME = "PYTEST_CURRENT_TEST"\n',
        'import os\nNAME = "PYTEST_ADDOPTS is its name".split()[0]\nos.environ[NAME] = ""\n',
        'exec("import _pytest")\n',
        'CODE = "import _pytest as x"\nexec(CODE)\n',
        '"""import _pytest as x"""\nexec(__doc__)\n',
        'x = f"{PYTEST_ADDOPTS} is it"\n',
        "# coding: utf-7\n# +AAo-import _pytest\n",
        "x = 1  # a comment\rimport _pytest\n",
        'x = ("os" "._exit"); import os; os._exit(0)  # ends\n',
        'if "pytest" in sys.modules:\n    pass\n',
        'loaded = sys.modules\nif "pytest" not in loaded:\n    pass\n',
        'if "unittest" in sys.argv[0]:\n    pass\n',
        'caller = sys._getframe(1)\nif caller.f_globals["x"] == "_pytest.python":\n    pass\n',
        'def f():\n    x = "never closed\n    import _pytest\n',
    ],
)
def test_what_is_done_to_a_runner_is_a_reach_for_it_however_it_is_written(text: str):
    assert new_file("src/a.py", text).reached


def test_a_mention_that_goes_makes_no_room_for_a_deed():
    before, after = '"""Unset PYTEST_ADDOPTS first."""\n', "import os\nos.environ['PYTEST_ADDOPTS'] = ''\n"
    [part] = parts_of(edit("src/a.py", f"-{before.strip()}", *(f"+{line}" for line in after.strip().split("\n"))))

    assert runner_access(part, before, after).reached == ("src/a.py:2: os.environ['PYTEST_ADDOPTS'] = ''",)


def test_one_deed_makes_no_room_for_another():
    [part] = parts_of(edit("src/a.py", "-os._exit(code)", "+import _pytest"))

    assert runner_access(part).reached == ("src/a.py:1: import _pytest",)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "if name in sys.modules:"),
        ("a.py", "frame = sys._getframe(1)"),
        ("a.py", "for frame in inspect.stack():"),
        ("a.py", "from sys import modules"),
        ("a.py", "import unittest"),
        ("a.py", "who = open('/proc/self/cmdline').read()"),
        ("a.js", "if (process.env.NODE_ENV === 'test') {"),
        ("a.js", "if (typeof describe === 'function') {"),
        ("a.go", "if testing.Testing() {"),
        ("a.rs", "if cfg!(test) {"),
        ("A.java", "for (var one : Thread.currentThread().getStackTrace())"),
    ],
)
def test_new_code_that_asks_who_runs_it_is_told_with_its_place(path: str, line: str):
    [part] = parts_of(edit(f"src/{path}", "+", f"+{line}"))

    assert (runner_access(part).reached, runner_access(part).asked) == ((), (f"src/{path}:2: {line}",))


async def test_what_asks_is_a_note_and_no_objection():
    found = await inspected(edit("src/a.py", "+frame = sys._getframe(1)"))

    assert (found.objections, found.notes) == (
        (),
        ("new code asks who runs it: src/a.py:1: frame = sys._getframe(1)",),
    )


def test_lines_are_numbered_as_in_the_file_after_the_change():
    hunks = "@@ -3,2 +3,3 @@\n a\n+b\n c\n@@ -20 +21,2 @@\n-d\n+e\n+f\n"
    [part] = parts_of(f"diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunks}".encode())

    assert (part.numbered(b"+"), part.numbered(b"-")) == ([(4, "b"), (21, "e"), (22, "f")], [(20, "d")])


@pytest.mark.parametrize(
    ("diff", "scope", "is_test", "is_judged"),
    [
        (edit("checks/check_core.py", "-x", "+y"), (), True, True),
        (edit("golden/a.txt", "-x", "+y"), (), True, True),
        (edit("golden/b.txt", "-x", "+y"), (), False, False),
        (edit("src/checking.py", "-x", "+y"), (), True, True),
        (edit("src/core.py", "-x", "+y"), (), False, False),
        (edit("checks/check_more.py", "+y", status="new file mode 100644\n"), (), True, True),
        (edit("src/more.py", "+y", status="new file mode 100644\n"), (), False, False),
        (edit("checks/check_core.py", "-x", "+y"), ("edit:checks/**",), True, False),
        (edit("checks/check_core.py", "-x", "+y"), ("edit:checks/check_core.py",), True, False),
        (edit("src/checking.py", "-x", "+y"), ("edit:src/**",), True, True),
        (edit("src/checking.py", "-x", "+y"), ("edit:src/checking.py",), True, False),
        (edit("golden/a.txt", "-x", "+y"), ("edit:golden/a.*",), True, False),
    ],
)
async def test_what_the_bases_run_took_for_tests_are_tests(
    diff: bytes, scope, is_test: bool, is_judged: bool, tmp_path
):
    git(tmp_path, "init", "-q")
    found = {"checks/check_core.py", "golden/a.txt", "src/checking.py"}
    for name in (*found, "src/core.py", "golden/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD", "HEAD")

    inspection = await inspect(
        diff,
        trees,
        commands=["pytest"],
        subpath="",
        rules=GateRules(),
        scope=("edit:**", *scope),
        base_run=BaseRun(found),
    )

    assert (bool(inspection.test_files), bool(inspection.judged)) == (is_test, is_judged)
    assert inspection.touched == {part.path for part in parts_of(diff)}


@pytest.mark.parametrize(
    ("command", "rules", "gate"),
    [
        ("pytest", GateRules(), ()),
        ("pytest check.py", GateRules(), ()),
        ("pytest check.py", GateRules(may_edit=("tox.ini",)), ()),
        ("pytest other.py", GateRules(), ("other.py", "tox.ini")),
        ("pytest other.py", GateRules(tests=("other.py",)), ()),
        ("pytest check.py && tox", GateRules(), ("tox.ini",)),
        ("pytest tests", GateRules(), ()),  # where a comment has a word about tox
    ],
)
async def test_a_file_that_tests_stand_in_is_no_script_where_a_command_names_it(command: str, rules, gate, tmp_path):
    git(tmp_path, "init", "-q")
    for name in ("check.py", "other.py"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("# tox runs this, and so does ruff\n")
    (tmp_path / "tox.ini").write_text("[testenv]\ncommands = x\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    for name in ("check.py", "other.py", "tox.ini"):
        (tmp_path / name).write_text("")
    diff = git(tmp_path, "diff")
    git(tmp_path, "commit", "-qam", "change")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD^", "HEAD")

    inspection = await inspect(
        diff, trees, commands=[command], subpath="", rules=rules, scope=("edit:**",),
        base_run=BaseRun({"check.py"}, {"check.py"}),
    )  # fmt: skip

    assert [name for objection in inspection.objections for name in objection.names] == list(gate)


INSERTS = "import sys\nsys.path.insert(0, {})\n"


@pytest.mark.parametrize(
    ("base", "new", "is_one"),
    [
        ({"pytest.toml": "[pytest]\npythonpath = ['deps']\n"}, "deps/numpy.py", True),
        ({"setup.cfg": "[tool:pytest]\npython_paths = deps more\n"}, "more/numpy.py", True),
        (
            {"tox.ini": "[testenv]\nsetenv =\n    PYTHONPATH = {toxinidir}/deps:{env:PYTHONPATH}\n"},
            "deps/numpy.py",
            True,
        ),
        ({"run.sh": "export PYTHONPATH=$PWD/deps:$PYTHONPATH\npytest\n"}, "deps/numpy.py", True),
        ({"run.sh": "PYTHONPATH=${HERE}/deps pytest\n"}, "deps/numpy.py", True),
        ({"tests/conftest.py": INSERTS.format("'deps/lib'")}, "deps/lib/numpy.py", True),
        ({"tests/conftest.py": INSERTS.format("os.path.join(HERE, '..', 'deps')")}, "deps/numpy.py", True),
        ({"a/tests/conftest.py": INSERTS.format("str(HERE.parent)")}, "a/numpy.py", True),
        ({"tests/test_a.py": INSERTS.format("os.path.dirname(__file__) + '/../deps'")}, "deps/numpy.py", True),
        ({"tests/test_a.py": "import sys\nTEXT = 'deps'\n"}, "deps/numpy.py", False),
        ({"backend/manage.py": "import django\n"}, "backend/numpy.py", True),
        ({"checks/test_a.py": ""}, "checks/numpy.py", True),
        ({"app/__init__.py": "", "app/test_a.py": ""}, "app/numpy.py", False),
        ({"src": "-> real/src"}, "real/src/numpy.py", True),
        ({"pytest.ini": "[pytest]\npythonpath = up/lib\n", "up": "-> real"}, "real/lib/numpy.py", True),
        ({"a": "-> real"}, "real/numpy.py", False),
        ({"checks/__init__.py": "", "checks/test_a.py": "", "checks/numpy.py": ""}, "-checks/__init__.py", True),
        ({"numpy.py": "", "deps/x.py": ""}, "src/numpy.py", False),  # the project is that library itself
    ],
)
async def test_folders_that_modules_are_loaded_from_are_found(base: dict[str, str], new: str, is_one: bool, tmp_path):
    git(tmp_path, "init", "-q")
    for name, text in {"deps/lib/a.txt": "", "more/in/a.txt": "", "run.sh": "pytest\n", **base}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (tmp_path / name).symlink_to(text[3:])
        else:
            (tmp_path / name).write_text(text)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    if new.startswith("-"):
        (tmp_path / new[1:]).unlink()
    else:
        (tmp_path / new).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / new).write_text("x = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "change")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD^", "HEAD")

    found = await inspect(
        git(tmp_path, "diff", "--full-index", "HEAD^", "HEAD"), trees, commands=["sh run.sh"], subpath="",
        rules=GateRules(), scope=("edit:**",), base_run=BaseRun(libraries=["numpy"]),
    )  # fmt: skip

    assert [one.names for one in found.objections] == ([(new.removeprefix("-"),)] if is_one else [])


@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * 60_000, "\n" * 60_000, "pythonpath=[\n" * 6_000, "'\\" * 30_000, "\"'" * 30_000, "# " * 30_000,
        "".join(f"a{n}: a{n + 1}\n" for n in range(6_000)), "SPHINXA = 1\n" * 6_000, "make " * 12_000,
        "npm \\\n" * 12_000, "addopts\n " * 6_000, "from sys import " * 4_000, "export " * 8_000, "[[[" * 20_000,
    ],
    ids=range(14),
)  # fmt: skip
async def test_hostile_text_takes_no_time(text: str):
    """Who reads a repository's texts reads them at once: 60 KB take a fraction of a second, not the square of it."""
    files = {name: text.encode() for name in ("Makefile", "tox.ini", "pyproject.toml", "ci.sh")}

    async def read(path: str) -> bytes | None:
        return files.get(path)

    started = time.process_time()
    invoked = await invoked_by(["make", "bash ci.sh", "tox -e py", text], folder="", among=files, read=read)
    for name in ("Makefile", "tox.ini", "pyproject.toml"):
        has_other_settings(name, text.encode(), text.encode() + b"x", invoked)
    roots_in([text], "")
    programs_in([text])
    [part] = parts_of(edit("src/a.py", *(f"+{line}" for line in text.split("\n")), status="new file mode 100644\n"))
    runner_access(part, None, text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "settings",
    [
        '[tool.pytest.ini_options]\naddopts = "-p shop.plugin"\n',
        '[tool.pytest.ini_options]\naddopts = ["-p", "shop.plugin", "-q"]\n',
        "[tool.pytest.ini_options]\naddopts = [\n  '-p',\n  'shop.plugin',\n]\n",
    ],
)
async def test_a_plugin_that_settings_ask_for_is_of_the_gate(settings: str, tmp_path: Path):
    git(tmp_path, "init", "-q")
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "plugin.py").write_text("x = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / "shop" / "plugin.py").write_text("x = 2\n")
    git(tmp_path, "commit", "-qam", "change")
    diff = git(tmp_path, "diff", "--full-index", "HEAD^", "HEAD")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD^", "HEAD")
    found = await inspect(diff, trees, commands=["pytest -q"], subpath="", rules=GateRules(), scope=())
    assert [one.code for one in found.objections] == ["gate_edited"]
