"""Files that hold a gate's settings among other things: what of them is the gate's. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, cast

from ..strange_ini import read_ini, read_pytest_ini
from ..strange_toml import read_toml
from . import cmake_files
from .build_files import cargo_manifest, is_build_file, is_read, leads_elsewhere, node_package, table_in, what_counts
from .commands import programs_run
from .makefiles import MAKEFILES, what_goals_reach
from .names import CHECKERS, TASK_RUNNERS

# Of pyproject.toml: how a package is built and released decides nothing about its tests.
PACKAGING = frozenset(
    (
        *("setuptools", "setuptools_scm", "setuptools-scm", "poetry", "flit", "uv", "bumpversion", "commitizen"),
        *("towncrier", "semantic_release", "cibuildwheel", "versioningit", "maturin", "scikit-build"),
        *("bumpver", "tbump", "scriv", "git-cliff", "gha-update", "sponcon", "setuptools-git-versioning"),
    )
)
# Sections of setup.cfg that build documents and packages.
BUILDING = ("metadata", "options", "bdist", "sdist", "bumpversion", "build_sphinx", "upload_docs", "egg_info", "wheel")
_ANOTHER = re.compile(r"\{\[(testenv:\w+)\]")  # a section of tox that takes from another
PYTEST_SECTIONS = frozenset(("pytest", "tool:pytest"))  # of INI files
PYTEST_INI = ("pytest.ini", ".pytest.ini")  # which count where they are new or gone, even empty
PACKAGE_JSON_KEYS = ("jest", "mocha", "ava", "nyc", "c8", "vitest", "type", "babel", "eslintConfig", "overrides")
CARGO_KEYS = ("test", "bench", "lib", "bin", "profile", "lints")
# Scripts of a package.json that its managers run by themselves.
LIFECYCLE = frozenset(
    (
        *("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "dependencies"),
        "pnpm:devPreinstall",
    )
)


class Asked(Protocol):
    """What a gate's commands ask of programs; None is anything (see `Invoked`)."""

    @property
    def goals(self) -> frozenset[str] | None: ...
    @property
    def entries(self) -> frozenset[str] | None: ...
    @property
    def environments(self) -> frozenset[str] | None: ...
    @property
    def texts(self) -> tuple[str, ...]: ...
    @property
    def targets(self) -> cmake_files.Uses: ...
    def runs(self, program: str) -> bool: ...


def _pyproject(text: str, asked: Asked) -> object:
    found = read_toml(text)
    tools: dict[str, Any] = {
        name: table for name, table in table_in(found, "tool").items() if name not in PACKAGING and _counts(name, asked)
    }
    pytest = table_in(tools, "pytest")
    if "ini_options" in pytest:  # that there are some counts as well: pytest reads no other file then
        tools["pytest"] = {**pytest, "ini_options": _without_names(table_in(pytest, "ini_options"))}
    for builder, key in (("hatch", "envs"), ("pdm", "scripts")):
        if builder in tools:
            tools[builder] = table_in(tools, builder, key)
    programs = programs_of(found, programs_run(asked.texts))
    # what pytest loads by itself once the package is installed is told of here, or there
    return tools, programs, table_in(found, "project", "entry-points"), table_in(found, "tool", "poetry", "plugins")


def programs_of(pyproject: Mapping[str, Any], programs: Collection[str]) -> dict[str, Any]:
    """Of these programs the project's own, with what they run."""
    places = (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts"))
    own = {name: where for keys in places for name, where in table_in(pyproject, *keys).items()}
    return {name: where for name, where in own.items() if name in programs}


def _without_names(pytest_options: Mapping[str, Any]) -> dict[str, Any]:
    """A mark does what it does, registered or not; where names have to be registered, the run itself says so."""
    return {key: value for key, value in pytest_options.items() if key != "markers"}


def _counts(tool: str, asked: Asked) -> bool:
    return (tool not in CHECKERS and tool not in TASK_RUNNERS) or asked.runs(tool)


def _setup_cfg(text: str, asked: Asked) -> object:
    found = _ini(text)
    settings: dict[str, object] = {
        name: values
        for name, values in found.items()
        if not name.startswith(BUILDING) and _counts(_tool_of(name), asked)
    }
    return settings, found.get("options.entry_points", {}).get("pytest11", "")


def _tool_of(section: str) -> str:
    """Whose section it is: `[mypy-shop.*]`, `[pylint.main]`, `[tool:isort]`."""
    return re.split(r"[-.:]", section.removeprefix("tool:"))[0]


def _tox_ini(text: str, asked: Asked) -> object:
    """Its environments as far as tox is asked for them; pytest and others have sections of their own here."""
    sections = {
        name: values
        for name, values in _ini(text).items()
        if _counts(_tool_of(name), asked) and not name.startswith("gh-actions")
    }
    if not asked.runs("tox"):
        return {name: values for name, values in sections.items() if name != "tox" and not name.startswith("testenv")}
    wanted = asked.environments
    if wanted is None:
        return sections
    named = {name for section in sections.values() for value in section.values() for name in _ANOTHER.findall(value)}
    kept = {
        name: section
        for name, section in sections.items()
        if not name.startswith("testenv:") or name[8:] in wanted or name in named or not name[8:].isidentifier()
    }
    kept["tox"] = {key: value for key, value in kept.get("tox", {}).items() if key not in ("envlist", "env_list")}
    return kept


def _pytest_ini(text: str, asked: Asked) -> object:
    return _ini(text)


def _ini(text: str) -> dict[str, dict[str, str]]:
    """Each section as its own program reads it."""
    of_pytest = read_pytest_ini(text)
    found = {name: values for name, values in read_ini(text).items() if name not in PYTEST_SECTIONS}
    for section in PYTEST_SECTIONS & of_pytest.keys():
        found[section] = {key: value for key, value in of_pytest[section].items() if key != "markers"}  # as above
    return found


def _package_json(text: str, asked: Asked) -> object:
    found: object = json.loads(text)
    if not isinstance(found, dict):
        return found
    package = cast("dict[str, Any]", found)
    scripts: object = package.get("scripts")
    if isinstance(scripts, dict):
        scripts = reached_entries(cast("dict[str, Any]", scripts), asked.entries)
    own = [json.dumps(package.get(key)) for key in PACKAGE_JSON_KEYS]  # of patterns the first that fits is taken
    return own, scripts or {}, node_package(package, asked.runs)


def reached_entries(scripts: Mapping[str, Any], wanted: frozenset[str] | None) -> dict[str, Any]:
    """Of a package.json's scripts those that are asked for, what goes before and after them, and what always runs."""
    if wanted is None:
        return dict(scripts)
    around = {f"{when}{name}" for name in wanted for when in ("", "pre", "post")}
    return {name: text for name, text in scripts.items() if name in around | LIFECYCLE}


def _cargo(text: str, asked: Asked) -> object:
    found = read_toml(text)
    return {key: found.get(key) for key in CARGO_KEYS}, cargo_manifest(found, asked.runs)


def _makefile(text: str, asked: Asked) -> object:
    return text if asked.goals is None else what_goals_reach(text, asked.goals)


READERS: Mapping[str, Callable[[str, Asked], object]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "tox.ini": _tox_ini,
    **dict.fromkeys(PYTEST_INI, _pytest_ini),
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    **dict.fromkeys(MAKEFILES, _makefile),
}


def holds_settings(path: str) -> bool:
    return posixpath.basename(path) in READERS or is_build_file(path)


def is_of_cmake(path: str) -> bool:
    return posixpath.basename(path) == "CMakeLists.txt" or path.endswith(".cmake")


def has_other_settings(path: str, before: bytes | None, after: bytes | None, asked: Asked) -> bool:
    """Does the file say something else about the gate? What cannot be read counts as it stands."""
    reader = READERS.get(posixpath.basename(path))
    if reader is None and not is_read(path, asked.runs):
        return False
    if (before is None and after is None) or (reader is None and None in (before, after)):
        return True  # a link in its place, too
    if reader is None:
        reader = partial(_build_file, path)
    if _read(reader, before, asked) != _read(reader, after, asked):
        return True
    try:
        return leads_elsewhere(path, _text(before), _text(after), asked.runs)
    except (ValueError, RecursionError):
        return before != after


def _build_file(path: str, text: str, asked: Asked) -> object:
    if is_of_cmake(path):
        return cmake_files.what_counts(text, asked.runs, beside=asked.targets)
    return what_counts(path, text, asked.runs)


def _read(reader: Callable[[str, Asked], object], content: bytes | None, asked: Asked) -> object:
    text = _text(content)
    try:
        return reader(text or ("{}" if reader is _package_json else ""), asked)
    except (ValueError, RecursionError):
        return text


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")
