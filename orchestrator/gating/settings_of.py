"""Files that hold a gate's settings among other things: what of them is the gate's. Pure."""

from __future__ import annotations

import json
import posixpath
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from typing import Any, cast

# Of pyproject.toml: how a package is built and released decides nothing about its tests.
PACKAGING = frozenset(
    (
        *("setuptools", "setuptools_scm", "setuptools-scm", "poetry", "flit", "uv", "bumpversion", "commitizen"),
        *("towncrier", "semantic_release", "cibuildwheel", "versioningit", "maturin", "scikit-build"),
    )
)
PACKAGE_JSON = ("scripts", "jest", "mocha", "ava", "nyc", "c8", "vitest", "type", "babel", "eslintConfig", "overrides")
CARGO = ("test", "bench", "lib", "bin", "profile", "lints")


def _pyproject(text: str) -> object:
    found = tomllib.loads(text)
    tools: dict[str, Any] = {name: table for name, table in _table(found, "tool").items() if name not in PACKAGING}
    for builder, key in (("hatch", "envs"), ("pdm", "scripts")):
        if builder in tools:
            tools[builder] = _table(tools, builder, key)
    # what pytest loads by itself once the package is installed is told of here, or there
    return tools, _table(found, "project", "entry-points"), _table(found, "tool", "poetry", "plugins")


def _setup_cfg(text: str) -> object:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    settings: dict[str, object] = {
        name: dict(parser[name])
        for name in parser.sections()
        if name != "metadata" and not name.startswith(("options", "bdist", "sdist", "bumpversion"))
    }
    return settings, parser.get("options.entry_points", "pytest11", fallback="")


def _package_json(text: str) -> object:
    found: object = json.loads(text)
    return {key: cast("dict[str, Any]", found).get(key) for key in PACKAGE_JSON} if isinstance(found, dict) else found


def _cargo(text: str) -> object:
    found = tomllib.loads(text)
    return {key: found.get(key) for key in CARGO}


READERS: Mapping[str, Callable[[str], object]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
}


def holds_settings(path: str) -> bool:
    return posixpath.basename(path) in READERS


def has_other_settings(path: str, before: bytes | None, after: bytes | None) -> bool:
    """Does the file say something else about the gate? What cannot be read counts as it stands."""
    reader = READERS[posixpath.basename(path)]
    return _read(reader, before) != _read(reader, after)


def _read(reader: Callable[[str], object], content: bytes | None) -> object:
    text = (content or b"").decode("utf-8", "replace")
    try:
        return reader(text or ("{}" if reader is _package_json else ""))
    except (ValueError, ConfigError, RecursionError):
        return text


def _table(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        found = table.get(key)
        table = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return dict(table)
