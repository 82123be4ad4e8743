"""The hooks that are installed beside this worker."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import BadSettings
from .api import POINTS

GROUP = "muster.hooks"


@dataclass(frozen=True, slots=True)
class Installed:
    name: str
    hook: Any


def installed_hooks() -> tuple[Installed, ...]:
    """By name. `BadSettings` for one that cannot be loaded: a worker that left it out would not do what it was set up
    to do."""
    return tuple(_loaded(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))


def _loaded(point: EntryPoint) -> Installed:
    hint = f"mend or uninstall {point.dist.name if point.dist else point.value}"
    try:
        found: Any = point.load()
        hook = found() if inspect.isclass(found) else found
    except Exception as error:  # it is an operator's own code, and may fail in any way
        raise BadSettings(f"the hook {point.name} ({point.value}) cannot be loaded: {error!r}", hint=hint) from error
    methods = [name for name in POINTS if hasattr(hook, name)]
    if not methods:
        raise BadSettings(f"the hook {point.name} has none of the methods {', '.join(POINTS)}", hint=hint)
    if wrong := [name for name in methods if not inspect.iscoroutinefunction(getattr(hook, name))]:
        raise BadSettings(f"the hook {point.name} has a {wrong[0]} that is no `async def`", hint=hint)
    return Installed(point.name, hook)
