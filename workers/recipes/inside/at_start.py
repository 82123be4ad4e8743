"""What each Python of a command loads before all else, from the `sitecustomize` of its control."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what is imported here, each process pays for
if TYPE_CHECKING:
    from typing import Any


def start(root: str, folder: str, unittest: str, report: str, begin: str) -> None:
    """`folder`: where this was found. The code `unittest` and `begin` is run where a process runs unittest."""
    reuse_compiled(root)
    if is_unittest():
        inside: dict[str, Any] = {"__name__": "control"}
        exec(compile(unittest, "<control>", "exec"), inside)  # noqa: S102 - the platform's own
        inside["REPORT"] = report
        inside["watch"]()
        exec(compile(begin, "<control>", "exec"), inside)  # noqa: S102 - the platform's own
    load_the_other(folder)


def reuse_compiled(root: str) -> None:
    """Let libraries come compiled from beside their source, as they do without PYTHONPYCACHEPREFIX.

    To compile pytest and what it needs takes a second. What is below `root`, by whatever way it is reached, and what is
    no library of this Python stays with the prefix: a change can bring compiled code along.
    """
    importing: Any = sys.modules["_frozen_importlib_external"]
    of_prefix = importing.cache_from_source
    libraries = tuple({os.path.realpath(path) + "/" for path in (sys.prefix, sys.base_prefix)})
    places: dict[str, str] = {}

    def cache_from_source(path: Any, debug_override: Any = None, *, optimization: Any = None) -> Any:
        with_prefix = of_prefix(path, debug_override, optimization=optimization)
        if sys.pycache_prefix is None or type(path) is not str:
            return with_prefix
        folder, name = os.path.split(path)[0], os.path.basename(with_prefix)
        if folder not in places:
            real = os.path.realpath(folder) + "/"
            places[folder] = real if real.startswith(libraries) and not real.startswith(root) else ""
        beside = places[folder] + "__pycache__/" + name
        return beside if places[folder] and os.path.exists(beside) else with_prefix

    importing.cache_from_source = cache_from_source


def is_unittest() -> bool:
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    return b"-munittest" in words or (b"-m", b"unittest") in zip(words, words[1:])  # noqa: RUF007 - in Python 3.8, too


def load_the_other(own: str) -> None:
    """The `sitecustomize` that would have been loaded in this one's place."""
    importing: Any = sys.modules["_frozen_importlib_external"]
    spec = importing.PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != own])
    if spec is not None and spec.loader is not None:
        made: Any = sys.modules["_frozen_importlib"]
        spec.loader.exec_module(made.module_from_spec(spec))
