"""The environment that the fleet's programs are given, and how to see that it is not the caller's any more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version

from pydantic import BaseModel

from ..settings import Settings

PREFIX = "MUSTER_"
# Not handed on: one port cannot serve several processes (each takes a free one), and workers read their own table.
# Only commands publish, and sign people in: no other process learns where a secret is. What one command submits may be
# read-only, and what the next one does may not, on the same fleet.
WITHHELD = frozenset({"metrics_port", "workers", "forges", "console", "read_only"})


def environment_of(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with every setting that was given by hand spelt out, so that children decide nothing anew."""
    names = (settings.model_fields_set | {"state_dir", "fleet"}) - WITHHELD
    given = {name: value for name in sorted(names) if (value := getattr(settings, name)) is not None}
    withheld = {f"{PREFIX}{name.upper()}" for name in WITHHELD}
    kept = {name: value for name, value in environ.items() if name not in withheld}
    return {**kept, **{f"{PREFIX}{name.upper()}": _spelt(value) for name, value in given.items()}}


def fingerprints(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """By its name, a digest of each thing that decides how a fleet behaves: our version and settings, and what only its
    workers read."""
    known = {f"{PREFIX}{name.upper()}" for name in type(settings).model_fields}
    ours = {
        f"{PREFIX}{name.upper()}": value
        for name, value in settings.model_dump(mode="json").items()
        if name not in WITHHELD
    }
    theirs = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name not in known}
    read = {"Muster's version": version("muster"), f"{PREFIX}WORKERS": settings.workers, **ours, **theirs}
    return {name: _digest(value) for name, value in read.items()}


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The names whose digests are not the same.

    >>> different({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    ['b', 'c']
    """
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _digest(value: object) -> str:
    """Short: nobody finds a secret by it, and two values that are alike by chance are one chance in 4 billion."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _as_json(value: BaseModel) -> object:
    return value.model_dump(mode="json", exclude_defaults=True)


def _spelt(value: object) -> str:
    return json.dumps(value, default=_as_json) if isinstance(value, dict | list | tuple | BaseModel) else str(value)
