"""The evidence in an answer: which files and lines it names, and which of them there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from envelope.messages import Provenance
from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import PathError

from ..sandboxes.base_files import MAX_FILE_BYTES, BaseFiles
from .attempt import Attempt

# An answer with more evidence than that is a listing.
MAX_PLACES = 200
MAX_ANSWER_CHARS = 1_000_000  # what is behind them is read by nobody
CLAIM_CHARS = 300
MAX_TOLD = 10

# `path:line` or `path:first-last`; nothing may stand before it that would make it the end of something longer.
_PLACE = re.compile(rf"(?<![\w/.:@+-])(?:{WORKSPACE}/)?((?:[\w.@+-]+/)*[\w.@+-]+):(\d{{1,7}})(?:-(\d{{1,7}}))?(?!\w)")
_FILE = re.compile(r".*/[^/]+|[^/]+\.(?=\w*[A-Za-z])\w++")  # else `12:30` and `localhost:80` would be places


def places(answer: str) -> list[Provenance]:
    """Each file and line that the text names, once, with the words around it; in their order.

    >>> [(place.path, place.line, place.end_line) for place in places("See src/a.py:3-5 (not 12:30).")]
    [('src/a.py', 3, 5)]
    """
    found: dict[tuple[str, int, int], Provenance] = {}
    for line in answer[:MAX_ANSWER_CHARS].splitlines():
        claim = line.strip()[:CLAIM_CHARS]
        for match in _PLACE.finditer(line):
            path, first, last = match[1], int(match[2]), int(match[3] or match[2])
            if (path, first, last) not in found and _FILE.fullmatch(path) and ".." not in path.split("/"):
                found[path, first, last] = Provenance(claim=claim, path=path, line=first, end_line=last)
                if len(found) == MAX_PLACES:
                    return [*found.values()]
    return [*found.values()]


async def provenance_of(attempt: Attempt, answer: str, warn: Callable[[str], None]) -> tuple[Provenance, ...]:
    """The places that exist, at the base or in the workspace as the work left it; `warn` is told of the others."""
    named = places(answer)
    base = BaseFiles(attempt.sandbox)
    lengths = {path: await _lengths(path, base, attempt.sandbox.current) for path in {place.path for place in named}}
    real = [place for place in named if 1 <= place.line <= place.end_line <= lengths[place.path]]
    if missing := [place for place in named if place not in real]:
        warn(f"the answer names what is not there: {_told(missing)}")
    return tuple(real)


async def _lengths(path: str, base: BaseFiles, sandbox: Sandbox | None) -> int:
    """The number of lines that the file has, or had; 0 where there never was one."""
    before, after = await base.read(path), b""
    if sandbox is not None:
        with suppress(PathError):  # the work may have deleted it
            after = await sandbox.read(f"{WORKSPACE}/{path}", max_bytes=MAX_FILE_BYTES)
    return max(_lines(before or b""), _lines(after))


def _lines(content: bytes) -> int:
    return content.count(b"\n") + bool(content and not content.endswith(b"\n"))


def _told(missing: Sequence[Provenance]) -> str:
    shown = ", ".join(f"{place.path}:{place.line}" for place in missing[:MAX_TOLD])
    return shown if len(missing) <= MAX_TOLD else f"{shown} and {len(missing) - MAX_TOLD} more"
