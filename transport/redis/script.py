"""The Lua scripts beside this file, each between the shared moves of `lib.lua` and its `settle()`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script as the server gets it."""
    folder = files(__package__ or "transport.redis") / "scripts"
    lib, body = ((folder / f"{part}.lua").read_text() for part in ("lib", name))
    source = f"{lib}\nlocal function run()\n{body}\nend\n\nlocal answer = run()\nsettle()\nreturn answer\n"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
