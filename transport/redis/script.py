"""The Lua scripts: one per file, each between the shared moves that it needs (and `audit.lua` where somebody decides
something) and `settle()`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SHARED = ("lib", "line", "life")
# Those in which somebody decides something; to the others, which run all the time, its functions would be a burden.
DECIDING = frozenset({"allot", "answer", "cancel", "fund", "note", "purge", "raise"})
# Scripts that reap each time that they run.
REAPING = frozenset({"claim", "reap", "renew"})
# Those that move no task need less. The server goes through all that stands before a script at each call: 16 us for all
# of it, half of that for the first part alone, and five times as long after a pause.
_NEEDS = {
    "rate": SHARED[:1], "await": SHARED[:1], "announce": SHARED[:1], "purge": SHARED[:1], "trim": SHARED[:1],
    "upload": SHARED[:1], "submit": SHARED[:2], "allot": SHARED[:2],
}  # fmt: skip
# Scripts that run although the server's memory is full: without them nothing would end, and nobody could help. They
# write little. `claim` and `write` decide for themselves what they do then.
_ALLOWED_WHEN_FULL = frozenset({
    "allot", "announce", "answer", "archive", "await", "cancel", "chores", "fund", "note", "purge", "raise", "reap",
    "renew",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script as the server gets it."""
    folder = files(__package__ or "transport.redis") / "scripts"
    more = ("reaping",) if name in REAPING else ("audit",) if name in DECIDING else ()
    parts = (*_NEEDS.get(name, SHARED), *more, name)
    *shared, body = ((folder / f"{part}.lua").read_text() for part in parts)
    before = "".join(shared) + ("\nuse_reserve()\n" if name in _ALLOWED_WHEN_FULL else "")
    source = (
        f"{before}\nlocal function run()\n{body}\nend\n\nlocal answer = run()\nsettle()\nconfirm()\nreturn answer\n"
    )
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
