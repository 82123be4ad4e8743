"""Finding lines among lines, each way of comparing them tried on all places before the next. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

# What editors and models put in place of plain signs.
_PLAIN = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
    | {"\u2026": "..."}
)
# A letter with what is written above and below it; of Hangul, a syllable.
_LETTER = re.compile(
    r"[\x00-\x7f]+(?![\u0080-\U0010ffff])|(?s:.)[\u0300-\u036f\u1160-\u11ff\u1ab0-\u1aff\u20d0-\u20ff]*"
)


def plain(text: str) -> str:
    """With plain quotes, dashes, dots and blanks, and accents in one form (NFC).

    >>> plain("“it’s” – cafe\u0301…")
    '"it\\'s" - café...'
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_PLAIN)


class Plain:
    """A text in its plain form, and where in the text each of its characters is from."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._starts: list[int] | None = None  # None: each is from its own place
        self.text = text
        if not text.isascii():
            letters = [(found.start(), plain(found[0]), found[0]) for found in _LETTER.finditer(text)]
            self.text = "".join(form for _, form, _ in letters)
            self._starts = [
                start + (n if form == letter else 0) for start, form, letter in letters for n in range(len(form))
            ]

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The part of the text that this part is from; None when it would begin or end inside of one character."""
        first, last = self._origin(start), self._origin(end)
        cuts = (start, end) if self._starts else ()
        if any(0 < at < len(self.text) and self._origin(at) == self._origin(at - 1) for at in cuts):
            return None
        return first, last

    def index(self, at: int) -> int:
        """Where in the plain form this character of the text is."""
        return at if self._starts is None else bisect_left(self._starts, at)

    def _origin(self, at: int) -> int:
        if self._starts is None:
            return at
        return self._starts[at] if at < len(self._starts) else self._length


def collapsed(line: str) -> str:
    return " ".join(plain(line).split())


# How lines are compared: as they are, then more and more loosely.
PASSES: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    lambda line: plain(line).rstrip(),
    str.strip,
    lambda line: plain(line).strip(),
)
# More than anybody is told of, and few enough that texts which are alike everywhere are searched in no time.
MAX_PLACES = 100


def every(text: str, part: str, start: int = 0, *, step: int = 0) -> Iterator[int]:
    """The first places of a part, with a `step` of its length all that do not overlap."""
    at, count = text.find(part, start), 0
    while at >= 0 and (step or count < MAX_PLACES):
        yield at
        at, count = text.find(part, at + (step or 1)), count + 1


class Lines:
    """The lines of a file, prepared for many searches.

    They are searched as one text: then a search takes time in the length of both, and not in their product.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._prepared: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    @cached_property
    def stripped(self) -> list[str]:
        """In their plain form, without blanks around them."""
        return [plain(line).strip() for line in self.lines]

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first place from `start` where they stand; with `at_end`, the last lines or nothing."""
        places = (self.places(wanted, prepare, start, at_end=at_end) for prepare in PASSES)
        return next((found[0] for found in places if found), None)

    def places(
        self,
        wanted: Sequence[str],
        prepare: Callable[[str], str],
        start: int = 0,
        *,
        at_end: bool = False,
        everywhere: bool = False,
    ) -> list[int]:
        """The first places where they stand in this way of comparing, also those that overlap another; or `everywhere`
        that none overlaps."""
        last = len(self.lines) - len(wanted)
        first = max(start, last) if at_end else start
        if first > last:
            return []
        text, starts = self._in_pass(prepare)
        sought = _joined(map(prepare, wanted))
        # a newline between two of them belongs to both
        found = every(text, sought, starts[first], step=len(sought) - 1 if everywhere else 0)
        return [bisect_left(starts, at) for at in found]

    def _in_pass(self, prepare: Callable[[str], str]) -> tuple[str, list[int]]:
        """The text of all lines, and where in it each begins."""
        if prepare not in self._prepared:
            lines = [prepare(line) for line in self.lines]
            self._prepared[prepare] = _joined(lines), [*accumulate((len(line) + 1 for line in lines), initial=0)]
        return self._prepared[prepare]


def _joined(lines: Iterable[str]) -> str:
    """With a newline on both sides of each, so that only whole lines are found."""
    return "\n" + "".join(f"{line}\n" for line in lines)
