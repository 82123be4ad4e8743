"""Finding lines among lines, each way of comparing them tried on all places before the next. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

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
    """The lines of a file, prepared for many searches.

    They are searched as one text: then a search takes time in the length of both, and not in their product.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._plain = lines
        self._prepared: dict[int, tuple[str, list[int]]] = {}

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first place from `start` where they stand; with `at_end`, the last lines or nothing."""
        last = len(self._plain) - len(wanted)
        first = max(start, last) if at_end else start
        if first > last:
            return None
        for number, prepare in enumerate(_PASSES):
            text, starts = self._in_pass(number)
            at = text.find(_joined(map(prepare, wanted)), starts[first])
            if at >= 0:
                return bisect_left(starts, at)
        return None

    def _in_pass(self, number: int) -> tuple[str, list[int]]:
        """The text of all lines, and where in it each begins."""
        if number not in self._prepared:
            lines = [_PASSES[number](line) for line in self._plain]
            self._prepared[number] = _joined(lines), [*accumulate((len(line) + 1 for line in lines), initial=0)]
        return self._prepared[number]


def _joined(lines: Iterable[str]) -> str:
    """With a newline on both sides of each, so that only whole lines are found."""
    return "\n" + "".join(f"{line}\n" for line in lines)
