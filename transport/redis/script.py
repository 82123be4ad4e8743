"""The Lua scripts beside this file, each with the shared moves of `lib.lua` in front."""

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
    source = f"{(folder / 'lib.lua').read_text()}\n{(folder / f'{name}.lua').read_text()}"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
