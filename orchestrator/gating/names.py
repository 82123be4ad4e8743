"""File names of tests, and of what belongs to the gate: tables. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from envelope.pattern import match

TEST_FOLDERS = frozenset(
    ("tests", "test", "testing", "__tests__", "__snapshots__", "__mocks__", "spec", "specs", "e2e", "testdata")
)
TEST_FILES = (
    *("test_*.py", "*_test.py", "tests.py", "conftest.py", "*_test.go", "*_test.rs", "*_spec.rb", "*_test.rb"),
    *("*.test.[jt]s", "*.test.[jt]sx", "*.test.[cm][jt]s", "*.spec.[jt]s", "*.spec.[jt]sx", "*.spec.[cm][jt]s"),
    *("*Test.java", "*Tests.java", "Test*.java", "*IT.java", "*Test.kt", "*Tests.kt", "*Spec.scala", "*Test.scala"),
    *("*Test.php", "*Tests.cs", "*Test.cs", "*_test.exs", "*_test.cc", "*_test.cpp", "*Tests.swift", "*.bats"),
    "*.snap",
)
# They run what their tables name; no test runs them.
TASK_RUNNERS = ("tox", "hatch", "pdm", "poe")
# Checkers and formatters, and what else no runner of tests reads: their settings count where a gate runs them. Each
# with the files that are theirs alone.
CHECKERS: Mapping[str, tuple[str, ...]] = {
    "ruff": ("ruff.toml", ".ruff.toml"),
    "mypy": ("mypy.ini", ".mypy.ini"),
    "flake8": (".flake8",),
    "pylint": (".pylintrc", "pylintrc"),
    "pyright": ("pyrightconfig.json",),
    "basedpyright": ("pyrightconfig.json",),
    "pre-commit": (".pre-commit-config.yaml",),
    "prek": (".pre-commit-config.yaml",),
    "eslint": ("eslint.config.*", ".eslintrc*"),
    "biome": ("biome.json",),
    "golangci-lint": (".golangci.*",),
    "clippy": ("clippy.toml",),
    **dict.fromkeys(
        (
            *("black", "isort", "yapf", "autopep8", "autoflake", "docformatter", "pyupgrade", "pycodestyle"),
            *("pydocstyle", "pyflakes", "pytype", "pyre", "pyrefly", "ty", "bandit", "vulture", "codespell", "typos"),
            *("interrogate", "djlint", "sqlfluff", "deptry", "check-manifest", "check-wheel-contents", "doc8", "ssort"),
            *("unimport", "sphinx", "mkdocs", "numpydoc", "pydoclint", "darglint", "refurb", "radon", "xenon"),
            *("creosote", "pyproject-fmt"),
        ),
        (),
    ),
}
# Where pytest finds its settings.
PYTEST_SETTINGS = (
    *("pyproject.toml", "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
)
# Those of JavaScript's runners, and of what compiles for them.
JS_SETTINGS = (
    *("jest.config.*", "vitest.config.*", "vitest.workspace.*", ".mocharc*", "karma.conf.*", "ava.config.*"),
    *("playwright.config.*", "cypress.config.*", ".nycrc*", ".c8rc*", "babel.config.*", ".babelrc*"),
)
# Settings and hooks of runners and checkers: whoever writes them decides what passes.
GATE_FILES = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "noxfile.py", "nose.cfg"),
    *(
        "sitecustomize",
        "sitecustomize.*",
        "usercustomize",
        "usercustomize.*",
        "*.pth",
        ".coveragerc",
        ".coveragerc.toml",
    ),
    *(*JS_SETTINGS, "vite.config.*", ".npmrc", ".yarnrc*", ".pnpmfile.*"),
    *("nextest.toml", "phpunit.xml*", ".rspec", "CTestCustom.cmake", "CTestTestfile.cmake", ".env", ".envrc"),
    *(file for files in CHECKERS.values() for file in files),
)
# Installed tools, which no patch has any business with; cargo's folder may name another runner.
TOOL_FOLDERS = frozenset(("node_modules", "venv", ".venv", "site-packages", ".tox", ".nox", ".cargo", ".mvn"))
# What is said to be installed beside the code: Python's runners load the plugins that it names.
METADATA = ("*.egg-info", "*.dist-info", "EGG-INFO")
IMPORT_ROOTS = frozenset(("", "src", "lib", "python"))


def in_quotes(text: str) -> str:
    """As one word of a shell, to paste: names of files come from repositories.

    >>> print(in_quotes("a'$(b)"))
    'a'"'"'$(b)'
    """
    return "'" + text.replace("'", "'\"'\"'") + "'"


def is_test_file(path: str, more: Iterable[str] = ()) -> bool:
    """By its folder or its name; `more` are a person's patterns.

    >>> is_test_file("pkg/tests/data.json"), is_test_file("src/contest.py"), is_test_file("ui/a.test.tsx")
    (True, False, True)
    """
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or _named(name, TEST_FILES) or any(match(p, path) for p in more)


def is_gate_file(path: str) -> bool:
    """Does it belong to a runner or a checker, whatever the gate's commands are?"""
    *folders, name = path.split("/")
    is_package = not {"sitecustomize", "usercustomize"}.isdisjoint(folders)
    return is_package or is_installed(path) or _named(name, (*GATE_FILES, *METADATA))


def is_installed(path: str) -> bool:
    """Is it in a folder of installed tools?"""
    folders = path.split("/")[:-1]
    return not TOOL_FOLDERS.isdisjoint(folders) or any(_named(folder, METADATA) for folder in folders)


def checkers_of(path: str) -> tuple[str, ...]:
    """The checkers whose settings this file has, and nothing else."""
    name = posixpath.basename(path)
    return tuple(tool for tool, files in CHECKERS.items() if _named(name, files))


def is_test_module(path: str) -> bool:
    """One that pytest looks for tests or fixtures in, by its name alone."""
    return _named(posixpath.basename(path), ("test_*.py", "*_test.py", "tests.py", "conftest.py"))


def _named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
