"""The Lua scripts: one per file, each between the shared moves (`lib.lua`, `line.lua`, `life.lua`) and `settle()`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SHARED = ("lib", "line", "life")


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script as the server gets it."""
    folder = files(__package__ or "transport.redis") / "scripts"
    *shared, body = ((folder / f"{part}.lua").read_text() for part in (*SHARED, name))
    source = f"{''.join(shared)}\nlocal function run()\n{body}\nend\n\nlocal answer = run()\nsettle()\nreturn answer\n"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
