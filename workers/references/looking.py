"""Finding a symbol in a process of its own, which hostile source may cost its life and nothing else."""

from __future__ import annotations

import sys

from repo.apart import run_apart
from repo.bounds import answer_once

from .grammars import loaded
from .symbols import MAX_SOURCE_BYTES, lines_of

# Ten times what the largest honest source needs.
MAX_CPU_S = 5


async def find_lines(source: bytes, symbol: str, language: str) -> tuple[int, int] | None:
    """As `lines_of`; None for source that cannot be read within bounds, too."""
    if len(source) > MAX_SOURCE_BYTES:
        return None
    told = await run_apart(__name__, symbol, language, told=source)
    first, _, last = (told or b"").decode().partition(" ")
    return (int(first), int(last)) if last else None


def main(symbol: str, language: str) -> None:
    loaded(language)
    answer_once(lambda source: _told(lines_of(source, symbol, language)), MAX_CPU_S)


def _told(found: tuple[int, int] | None) -> bytes:
    return b"" if found is None else b"%d %d" % found


if __name__ == "__main__":
    main(*sys.argv[1:])
