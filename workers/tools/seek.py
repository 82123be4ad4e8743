"""Finding lines among lines, each way of comparing them tried on all places before the next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# What editors and models put in place of plain signs.
_PLAIN = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
    | {"\u2026": "..."}
)

_PASSES: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: line.translate(_PLAIN).strip(),
)


class Lines:
    """The lines of a file, prepared for many searches."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._plain = lines
        self._prepared: dict[int, list[str]] = {}

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first place from `start` where they stand; with `at_end`, the last lines or nothing."""
        last = len(self._plain) - len(wanted)
        first = max(start, last) if at_end else start
        for number, prepare in enumerate(_PASSES):
            needle = [prepare(line) for line in wanted]
            if (found := _index(self._in_pass(number), needle, first, last)) is not None:
                return found
        return None

    def _in_pass(self, number: int) -> list[str]:
        if number not in self._prepared:
            self._prepared[number] = [_PASSES[number](line) for line in self._plain]
        return self._prepared[number]


def _index(lines: list[str], needle: list[str], first: int, last: int) -> int | None:
    while first <= last:
        try:
            first = lines.index(needle[0], first, last + 1)
        except ValueError:
            return None
        if lines[first : first + len(needle)] == needle:
            return first
        first += 1
    return None
