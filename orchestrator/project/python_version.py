"""The oldest Python that a package supports, by its own metadata. Pure; anybody's files: read, never run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ..strange_ini import BadIni, read_ini
from ..strange_toml import BadToml, read_toml

DECLARED_IN = ("pyproject.toml", "setup.cfg", "setup.py")
# What ruff knows. A package of older Pythons is rewritten for the oldest of these, and is then none of theirs.
OLDEST, NEWEST = 7, 15
UNDECLARED = "py310"  # the oldest that was maintained in 2026; ruff's own default moves with its releases
_BOUND = re.compile(r"(?:^|[,\s])(>=|>|~=|===?|\^|~|(?=\d))\s*v?(\d+)(?:\.(\d+))?")
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (\d{1,4})\.(\d{1,4})\b")
_IN_SETUP = re.compile(r"""python_requires\s*=\s*(?:\w+\s*=\s*)?["']([^"'\n]{1,200})["']""")

Version = tuple[int, int]


def oldest_python(texts: Mapping[str, str]) -> Version | None:
    """`texts` of the files in `DECLARED_IN`. A bound counts before classifiers, which are the oldest that is named.

    >>> oldest_python({"setup.py": "setup(python_requires='>=3.7, !=3.8.*')"}), oldest_python({})
    ((3, 7), None)
    """
    bounds = (_of_pyproject(texts), _setup_cfg(texts), *_IN_SETUP.findall(texts.get("setup.py", ""))[:1])
    if found := next((version for bound in bounds if (version := _lowest(bound)) is not None), None):
        return found
    named = [(int(a), int(b)) for a, b in _CLASSIFIER.findall("\n".join(texts.get(name, "") for name in DECLARED_IN))]
    return min(named, default=None)


def target_version(oldest: Version | None) -> str:
    """As ruff and black write it.

    >>> target_version((3, 8)), target_version((2, 7)), target_version(None)
    ('py38', 'py37', 'py310')
    """
    if oldest is None:
        return UNDECLARED
    major, minor = oldest
    return f"py3{min(max(minor, OLDEST), NEWEST)}" if major == 3 else f"py3{OLDEST if major < 3 else NEWEST}"


def _lowest(bound: str) -> Version | None:
    """The lowest that a specifier lets in: the highest of its lower bounds, the lowest of (Poetry's) alternatives."""
    alternatives = [_highest(part) for part in re.split(r"\|\|?", bound)]
    return min((each for each in alternatives if each is not None), default=None)


def _highest(clauses: str) -> Version | None:
    return max(((int(major), int(minor or 0)) for _, major, minor in _BOUND.findall(clauses[:200])), default=None)


def _of_pyproject(texts: Mapping[str, str]) -> str:
    try:
        tables = read_toml(texts.get("pyproject.toml", ""))
    except BadToml:
        return ""
    said = _at(tables, "project", "requires-python") or _at(tables, "tool", "poetry", "dependencies", "python")
    return said if isinstance(said, str) else ""


def _at(tables: dict[str, Any], *keys: str) -> object:
    found: object = tables
    for key in keys:
        found = cast("dict[str, object]", found).get(key) if isinstance(found, dict) else None
    return found


def _setup_cfg(texts: Mapping[str, str]) -> str:
    try:
        return read_ini(texts.get("setup.cfg", "")).get("options", {}).get("python_requires", "")
    except BadIni:
        return ""
