"""Setup and gate of a project, guessed from its files. Pure: what a person would try first, each with its reason.

Languages stand in a table; the first that knows a gate decides, and a Makefile's `test` target is the last resort.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from ..strange_ini import BadIni, read_ini
from ..strange_toml import BadToml, read_toml
from .files import ProjectFiles

# Of an extra or a dependency group that brings what tests need, the likeliest first.
TEST_EXTRAS = ("test", "tests", "testing", "dev", "develop", "all")
TEST_REQUIREMENTS = (
    *("requirements-test.txt", "test-requirements.txt", "requirements-dev.txt", "dev-requirements.txt"),
    *("requirements_dev.txt", "requirements.txt"),
)
PYTEST = "python -m pytest -q"
NO_TEST = "no test specified"  # what npm writes into a new package


@dataclass(frozen=True, slots=True)
class Guess:
    """`why` names what each was taken from; `needs` is a program that the sandbox image must have for it."""

    setup: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    why_setup: str = ""
    why_gate: str = ""
    needs: str = ""


def guess(files: ProjectFiles) -> Guess:
    """The first language's guess that has a gate; else the first with a setup; else nothing.

    >>> guess(ProjectFiles({"go.mod": "module x"}, frozenset({"go.mod"}))).gate
    ('go test -v ./...',)
    """
    guesses = [found for language in LANGUAGES if (found := language(files)) is not None]
    return next((found for found in guesses if found.gate), guesses[0] if guesses else Guess())


def _python(files: ProjectFiles) -> Guess | None:
    if not (is_package := bool(files.first("pyproject.toml", "setup.py", "setup.cfg"))) and not files.first(
        "tox.ini", "pytest.ini", *TEST_REQUIREMENTS
    ):
        return None
    setup, why_setup = _python_setup(files, is_package=is_package)
    gate, why_gate = _python_gate(files)
    named = any("pytest" in text for text in files.texts.values())
    if gate == PYTEST and not named:  # it is used, and nothing that is installed brings it
        setup = (*setup, "pip install pytest")
    return Guess(setup, (gate,) if gate else (), why_setup, why_gate)


def _python_setup(files: ProjectFiles, *, is_package: bool) -> tuple[tuple[str, ...], str]:
    project = _table(files.text("pyproject.toml"))
    extras = _names(_inner(project, "project", "optional-dependencies")) | _setup_cfg_extras(files)
    extra = next((name for name in TEST_EXTRAS if name in extras), "")
    can_install = bool(files.first("setup.py", "setup.cfg")) or "project" in project or "build-system" in project
    wanted = files.first(*TEST_REQUIREMENTS)
    commands: list[str] = []
    reasons: list[str] = []
    if is_package and can_install:
        commands.append(f'pip install -e ".[{extra}]"' if extra else "pip install -e .")
        reasons.append(f"the extra {extra!r}" if extra else files.first("pyproject.toml", "setup.cfg", "setup.py"))
    if wanted and not extra:
        commands.append(f"pip install -r {wanted}")
        reasons.append(wanted)
    group = _inner(project, "dependency-groups")
    if not extra and (name := next((name for name in TEST_EXTRAS if name in group), "")):
        plain = [item for item in _texts(group[name]) if item]
        if plain:
            commands.append("pip install " + " ".join(f'"{item}"' for item in plain))
            reasons.append(f"the dependency group {name!r}")
    return tuple(commands), ", ".join(reasons)


def _python_gate(files: ProjectFiles) -> tuple[str, str]:
    for name, mark in (
        ("pyproject.toml", "[tool.pytest"),
        ("pytest.ini", ""),
        ("tox.ini", "pytest"),
        ("setup.cfg", "pytest"),
        ("pyproject.toml", "pytest"),
        *((name, "pytest") for name in TEST_REQUIREMENTS),
    ):
        if name in files.texts and mark in files.text(name):
            return PYTEST, f"{name} names pytest" if mark else name
    if folder := files.first("conftest.py", "tests", "test"):
        return PYTEST, f"{folder} is there"
    return "", ""


def _setup_cfg_extras(files: ProjectFiles) -> set[str]:
    try:
        return set(read_ini(files.text("setup.cfg")).get("options.extras_require", {}))
    except BadIni:
        return set()


def _node(files: ProjectFiles) -> Guess | None:
    if "package.json" not in files.texts:
        return None
    script = str(_inner(_object(files.text("package.json")), "scripts").get("test", ""))
    lock, install, program = next(
        (row for row in NODE_LOCKS if not row[0] or row[0] in files.names), ("", "npm install", "npm")
    )
    gate = (f"{program} test",) if script and NO_TEST not in script else ()
    return Guess((install,), gate, lock or "package.json", "package.json has a test script", program)


NODE_LOCKS = (
    ("package-lock.json", "npm ci", "npm"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm"),
    ("yarn.lock", "yarn install --frozen-lockfile", "yarn"),
    ("", "npm install", "npm"),
)


def _rust(files: ProjectFiles) -> Guess | None:
    if "Cargo.toml" not in files.texts:
        return None
    return Guess(("cargo fetch",), ("cargo test --offline",), "Cargo.toml", "Cargo.toml", "cargo")


def _go(files: ProjectFiles) -> Guess | None:
    if "go.mod" not in files.texts:
        return None
    return Guess(("go mod download",), ("go test -v ./...",), "go.mod", "go.mod", "go")  # -v: counted by name


def _make(files: ProjectFiles) -> Guess | None:
    name = next((name for name in ("GNUmakefile", "makefile", "Makefile") if name in files.texts), "")
    targets = re.findall(r"^([A-Za-z][\w-]*)\s*:(?!=)", files.text(name), re.MULTILINE)
    target = next((target for target in ("test", "tests", "check") if target in targets), "")
    return (
        Guess(gate=(f"make {target}",), why_gate=f"{name} has the target {target!r}", needs="make") if target else None
    )


LANGUAGES: tuple[Callable[[ProjectFiles], Guess | None], ...] = (_python, _rust, _go, _node, _make)


def _table(text: str) -> dict[str, Any]:
    try:
        return read_toml(text)
    except BadToml:
        return {}


def _object(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _inner(table: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The table under these keys; empty where there is none, or something else."""
    for key in keys:
        found = table.get(key)
        if not isinstance(found, dict):
            return {}
        table = cast("dict[str, Any]", found)
    return table


def _names(table: dict[str, Any]) -> set[str]:
    return set(table)


def _texts(items: object) -> Iterator[str]:
    """Plain requirements of a dependency group; what it includes of others is left to the person."""
    if isinstance(items, list):
        yield from (item for item in cast("list[object]", items) if isinstance(item, str) and '"' not in item)
