"""What is guessed of projects of all kinds, and the file that says so."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.project.file import ProjectFile, defaults, parsed
from orchestrator.project.files import MAX_FILE_BYTES, ProjectFiles
from orchestrator.project.guess import guess
from orchestrator.project.python_version import oldest_python, target_version
from orchestrator.project.text import text_of
from orchestrator.settings import Settings

PYTEST = ("python -m pytest -q",)
PACKAGE = "[project]\nname = 'x'\n"
EXTRA = '[project]\nname = "x"\n[project.optional-dependencies]\ndocs = ["sphinx"]\ntest = ["pytest"]\n'
GROUP = '[project]\nname = "x"\n[dependency-groups]\ndev = ["pytest>=8", {include-group = "lint"}]\n'

PROJECTS = {
    "an extra": ({"pyproject.toml": EXTRA}, ('pip install -e ".[test]"',), PYTEST),
    "a dependency group": ({"pyproject.toml": GROUP}, ("pip install -e .", 'pip install "pytest>=8"'), PYTEST),
    "requirements": (
        {"setup.py": "", "requirements.txt": "requests", "requirements-dev.txt": "pytest"},
        ("pip install -e .", "pip install -r requirements-dev.txt"),
        PYTEST,
    ),
    "an extra of setup.cfg": (
        {"setup.py": "", "setup.cfg": "[options.extras_require]\ntesting =\n    pytest\n"},
        ('pip install -e ".[testing]"',),
        PYTEST,
    ),
    "tests, and nobody who brings pytest": (
        {"pyproject.toml": PACKAGE, "tests": None},
        ("pip install -e .", "pip install pytest"),
        PYTEST,
    ),
    "tools' settings only": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, (), PYTEST),
    "tox": ({"tox.ini": "[testenv]\ndeps = pytest\ncommands = pytest\n"}, (), PYTEST),
    "Rust": ({"Cargo.toml": "[package]"}, ("cargo fetch",), ("cargo test --offline",)),
    "Go": ({"go.mod": "module x"}, ("go mod download",), ("go test -v ./...",)),
    "npm": (
        {"package.json": '{"scripts": {"test": "node --test"}}', "package-lock.json": None},
        ("npm ci",),
        ("npm test",),
    ),
    "a new package of npm": (
        {"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})},
        ("npm install",),
        (),
    ),
    "make beside a package without tests": (
        {"package.json": "{}", "Makefile": "CC := gcc\nall: x\ntest: all\n\ttrue\n"},
        (),
        ("make test",),
    ),
    "nothing": ({"README.md": None}, (), ()),
    "files that are none": (
        {"pyproject.toml": "[[[", "package.json": "[1]", "setup.cfg": "x"},
        ("pip install -e .",),
        (),
    ),
}


def files_of(files: dict[str, str | None], agents: tuple[str, ...] = ()) -> ProjectFiles:
    texts = {name: text for name, text in files.items() if text is not None}
    return ProjectFiles(texts, frozenset(files), agents)


@pytest.mark.parametrize(("files", "setup", "gate"), PROJECTS.values(), ids=PROJECTS)
def test_setup_and_gate_are_guessed(files, setup, gate):
    found = guess(files_of(files))
    assert (found.setup, found.gate) == (setup, gate)


@pytest.mark.parametrize("files", [files for files, _, _ in PROJECTS.values()], ids=PROJECTS)
def test_what_is_written_can_be_read_and_says_what_was_guessed(files):
    known = files_of(files, ("reviewer\nevil = 1", "helper"))
    found = guess(known)
    read = parsed(text_of(found, known).encode(), "muster.toml")
    assert (read.setup, read.gate) == (found.setup, found.gate)


def test_every_key_that_the_comments_name_is_one():
    lines = text_of(guess(files_of({})), files_of({"AGENTS.md": None})).splitlines()
    values = "\n".join(line.removeprefix("# ") for line in lines if " = " in line)
    assert set(tomllib.loads(values)) == set(ProjectFile.model_fields)
    assert any("AGENTS.md" in line for line in lines)


def test_links_devices_and_huge_files_are_not_read(tmp_path):
    (tmp_path / "setup.py").symlink_to("/etc/passwd")
    (tmp_path / "Makefile").write_text("x" * (MAX_FILE_BYTES + 1))
    os.mkfifo(tmp_path / "tox.ini")
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / ".claude" / "agents" / "reviewer.md").write_text("x")
    found = ProjectFiles.of(tmp_path)
    assert found.texts == {}
    assert found.agents == ("reviewer",)


@pytest.mark.parametrize(
    ("content", "sentence", "hint"),
    [
        (b"gate = 1", "gate", "--print"),
        (b"gaet = []", "unknown key 'gaet'", "gate"),
        (b"[permission]\nbash = 'allow'", "unknown key 'permission'", "rules stand in agent files"),
        (b"deadline = 'soon'", "not a length of time", "--print"),
        (b"deadline = '31d'", "a second and 30 days", "--print"),
        (b"budget = -1", "budget", "--print"),
        (b"[", "is not TOML", "--print"),
        (b"\xff", "is not TOML", "--print"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_is_wrong(content, sentence, hint):
    with pytest.raises(BadInput) as refused:
        parsed(content, "muster.toml")
    assert sentence in refused.value.message
    assert hint in refused.value.hint


FILE = ProjectFile(setup=("s",), gate=("g",), agent="mine", model="a/b", budget=9.0, deadline="2h")


def test_a_trusted_file_counts_more_than_the_settings_of_its_user():
    found = defaults(FILE, Settings(), is_trusted=True)
    assert (found.setup, found.gate, found.agent, found.model) == (("s",), ("g",), "mine", "a/b")
    assert (found.budget_microusd, found.deadline_s, found.ignored) == (9_000_000, 7200, ())


def test_an_untrusted_file_can_only_ask_for_less():
    found = defaults(FILE, Settings(), is_trusted=False)
    assert (found.setup, found.gate, found.agent, found.model) == ((), (), "", "")
    assert (found.budget_microusd, found.deadline_s) == (5_000_000, 3600)
    assert found.ignored == ("setup", "gate", "agent", "model")
    less = defaults(ProjectFile(budget=1.0, deadline="5m"), Settings(), is_trusted=False)
    assert (less.budget_microusd, less.deadline_s, less.ignored) == (1_000_000, 300, ())


def test_variables_count_more_than_the_file(monkeypatch):
    for name, value in {"MODEL": "c/d", "BUDGET_MICROUSD": "7", "DEFAULT_AGENT": "build"}.items():
        monkeypatch.setenv(f"MUSTER_{name}", value)
    found = defaults(FILE, Settings(), is_trusted=True)
    assert (found.model, found.budget_microusd, found.agent, found.deadline_s) == ("", 7, "", 7200)


def test_the_documents_example_is_one():
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert parsed(example.encode(), "docs/cli.md").model_fields_set == set(ProjectFile.model_fields)


@pytest.mark.parametrize(
    ("name", "text", "oldest"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.8"', (3, 8)),
        ("pyproject.toml", '[project]\nrequires-python = "<4,>=3.9.2,!=3.10.*"', (3, 9)),
        ("pyproject.toml", '[project]\nrequires-python = "~=3.11.0"', (3, 11)),
        ("pyproject.toml", '[project]\nrequires-python = "==3.12.*"', (3, 12)),
        ("pyproject.toml", '[project]\nrequires-python = ">3.6"', (3, 6)),
        ("pyproject.toml", '[project]\nrequires-python = ">=3"', (3, 0)),
        ("pyproject.toml", '[project]\nrequires-python = "<4"', None),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.9"', (3, 9)),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "~2.7 || ^3.5"', (2, 7)),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "3.10.*"', (3, 10)),
        ("pyproject.toml", '[project]\nclassifiers = ["Programming Language :: Python :: 3.13",\n'
         '"Programming Language :: Python :: 3.9", "Programming Language :: Python :: 3"]', (3, 9)),
        ("pyproject.toml", "[project]\nrequires-python = 3", None),
        ("pyproject.toml", "no TOML", None),
        ("setup.cfg", "[options]\npython_requires = >=3.7\n[metadata]\nclassifiers =\n  "
         "Programming Language :: Python :: 3.6\n", (3, 7)),
        ("setup.cfg", "[metadata]\nclassifiers =\n  Programming Language :: Python :: 3.10\n  "
         "Programming Language :: Python :: 3.6\n", (3, 6)),
        ("setup.py", "setup(\n    python_requires = \">=3.5\",\n)", (3, 5)),
        ("setup.py", "setup(classifiers=['Programming Language :: Python :: 2.7',\n"
         "'Programming Language :: Python :: 3.4'])", (2, 7)),
        ("setup.py", "setup()", None),
    ],
)  # fmt: skip
def test_the_oldest_python_is_what_the_package_says(name, text, oldest):
    assert oldest_python({name: text}) == oldest


def test_a_bound_counts_before_classifiers_and_the_first_file_before_others():
    bound = {
        "pyproject.toml": '[project]\nrequires-python = ">=3.9"',
        "setup.cfg": "[options]\npython_requires = >=3.6",
    }
    classified = {"pyproject.toml": '[project]\nclassifiers = ["Programming Language :: Python :: 3.6"]'}

    assert oldest_python(bound) == (3, 9)
    assert oldest_python(classified | {"setup.py": "setup(python_requires='>=3.8')"}) == (3, 8)
    assert [target_version(each) for each in ((3, 0), (3, 11), (3, 99), (4, 0))] == ["py37", "py311", "py315", "py315"]
