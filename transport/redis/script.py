"""The Lua scripts: one per file, each between the shared moves (`lib.lua`, `line.lua`, `life.lua`; `audit.lua` where
somebody decides something) and `settle()`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SHARED = ("lib", "line", "life")
# Those in which somebody decides something; to the others, which run all the time, its functions would be a burden.
DECIDING = frozenset({"allot", "answer", "cancel", "fund", "note", "purge", "raise"})


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script as the server gets it."""
    folder = files(__package__ or "transport.redis") / "scripts"
    parts = (*SHARED, *(("audit",) if name in DECIDING else ()), name)
    *shared, body = ((folder / f"{part}.lua").read_text() for part in parts)
    source = f"{''.join(shared)}\nlocal function run()\n{body}\nend\n\nlocal answer = run()\nsettle()\nreturn answer\n"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
