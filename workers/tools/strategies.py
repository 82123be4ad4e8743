"""What in a text may be meant by a piece that is not in it word for word. Pure.

Whichever way it is looked for, each line of what is found is a line of that piece: blanks, quotes, dashes, accents and
escapes may differ, and words never do. The one exception are lines that stay what they are in the file anyway.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from .distance import similarity
from .elision import elided
from .fitting import change_of
from .seek import PASSES, Lines, Plain, collapsed, every

MIN_SIMILARITY = 0.65  # of a line that stays: one letter in three may be remembered wrongly
MIN_EQUAL_LINES = 0.5  # of the lines between the first and the last
MIN_RESEMBLING_LINES = 3  # those two, and something between them to compare
# Lines that stand at so many places anchor nothing: `{` and `}` of a generated file.
MAX_ANCHORED = 50

_QUOTES = re.compile(r"\\(['\"`])")
_ESCAPES = re.compile(r"\\([nrt'\"`\\$\n])")
_LEADING = re.compile(r"\A(?:[^\S\n]*\n)+")
_MEANING = {"n": "\n", "r": "\r", "t": "\t"}  # the others mean themselves


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the text that is meant, and what was asked for in the terms in which it was found. Whole lines, without
    the last newline, unless it `is_piece` of them."""

    start: int
    end: int
    old: str
    new: str
    is_piece: bool = False
    is_rewrapped: bool = False


@dataclass(frozen=True)
class Search:
    """A text in which `old` is looked for, to become `new`: once, or `everywhere`. Lines are without their newlines.
    `asked` is `old` with the blanks that are not looked for."""

    text: str
    old: str
    new: str
    source: Lines
    asked: str
    everywhere: bool

    @classmethod
    def of(cls, text: str, old: str, new: str, *, everywhere: bool) -> Search:
        return cls(text, old, new, Lines(lines_of(text)), old, everywhere)

    def asking(self, old: str, new: str, asked: str) -> Search:
        return replace(self, old=old, new=new, asked=asked)

    def every(self, text: str, part: str) -> Iterator[int]:
        return every(text, part, step=len(part) if self.everywhere else 0)

    @property
    def lines(self) -> Sequence[str]:
        return self.source.lines

    @cached_property
    def wanted(self) -> list[str]:
        return lines_of(self.old)

    @cached_property
    def starts(self) -> list[int]:
        return [*accumulate((len(line) + 1 for line in self.lines), initial=0)]

    def block(self, first: int, count: int, *, is_rewrapped: bool = False) -> Place:
        start, end = self.starts[first], self.starts[first + count] - 1
        return Place(start, end, self.old, self.new, is_rewrapped=is_rewrapped)


def other_signs(search: Search) -> Iterator[Place]:
    """The same with other quotes, dashes, dots or accents: lines or a part of them."""
    text, old = Plain(search.text), Plain(search.old).text
    if (text.text, old) == (search.text, search.old) or elided(search.old):
        return
    for at in search.every(text.text, old):
        if span := text.span(at, at + len(old)):
            yield Place(*span, search.old, search.new, is_piece=True)


def other_blanks(search: Search) -> Iterator[Place]:
    """Lines that are the same but for blanks: at their ends, else before them, else in them."""
    if not any(line.strip() for line in search.wanted):
        return
    for prepare in (*PASSES[1:], collapsed):
        if found := search.source.places(search.wanted, prepare, everywhere=search.everywhere):
            yield from (search.block(first, len(search.wanted)) for first in found)
            return


def same_words(search: Search) -> Iterator[Place]:
    """The same words in a part of a line; or in lines, however they are wrapped."""
    words = [*re.finditer(r"\S+", search.text)]
    wanted, text = collapsed(search.old), " ".join(collapsed(word[0]) for word in words)
    if not wanted or elided(search.old):
        return
    begins = [*accumulate((len(collapsed(word[0])) + 1 for word in words), initial=0)]
    for at in search.every(text, wanted):
        first, last = (bisect_right(begins, end) - 1 for end in (at, at + len(wanted) - 1))
        offsets = at - begins[first], at + len(wanted) - begins[last]
        if any(len(collapsed(words[n][0])) != len(words[n][0]) for n in (first, last)):
            continue
        place = words[first].start() + offsets[0], words[last].start() + offsets[1]
        if (found := _line_part(search, *place) if len(search.wanted) == 1 else _rewrapped(search, *place)) is not None:
            yield found


def _line_part(search: Search, start: int, end: int) -> Place | None:
    is_whole = _is_whole_word(search.text, start, end) and _is_apart(search.text, start, end, search.asked)
    if not is_whole or "\n" in search.text[start:end]:
        return None
    return Place(start, end, search.old.strip(), search.new.strip(), is_piece=True)


def _rewrapped(search: Search, start: int, end: int) -> Place | None:
    first, last = (bisect_right(search.starts, at) - 1 for at in (start, end - 1))
    before, after = search.text[search.starts[first] : start], search.text[end : search.starts[last + 1] - 1]
    lines = [line.strip() for line in search.lines[first : last + 1]]
    # `other_blanks` had found them
    if before.strip() or after.strip() or lines == [line.strip() for line in search.wanted]:
        return None
    return search.block(first, last + 1 - first, is_rewrapped=True)


def resembling(search: Search) -> Iterator[Place]:
    """As many lines, of which those that go are the same, and those that stay are at least alike."""
    count = len(search.wanted)
    if count < MIN_RESEMBLING_LINES or elided(search.old):
        return
    wanted = [collapsed(line) for line in search.wanted]
    change = change_of(search.wanted, lines_of(search.new) if search.new else [])
    stays = [sign == " " for sign, _ in change if sign != "+"]
    ends = (collapsed(line) for line in search.lines)
    starts = [n for n, line in enumerate(ends) if line == wanted[0] and n + count <= len(search.lines)]
    anchored = [first for first in starts if collapsed(search.lines[first + count - 1]) == wanted[-1]]
    if not all(wanted[n] for n in (0, -1)) or len(anchored) > MAX_ANCHORED:
        return
    for first in anchored:
        there = search.lines[first : first + count]
        pairs = [(collapsed(line), meant) for line, meant in zip(there, wanted, strict=True)]
        equal = [line == meant for line, meant in pairs if line or meant]
        alike = (
            line == meant or (stay and similarity(line, meant) >= MIN_SIMILARITY)
            for (line, meant), stay in zip(pairs, stays, strict=True)
        )
        if sum(equal) - 2 >= MIN_EQUAL_LINES * (len(equal) - 2) and all(alike):
            yield search.block(first, count)


def found_loosely(search: Search) -> Iterator[list[Place]]:
    """The places that may be meant, by the first way of looking that finds any; then by the next."""
    trimmed = _without_blanks_around(search)
    variants = [search, *([trimmed] if trimmed else []), *_unescaped(search)]
    for variant in variants:
        if variant is not search:
            yield [*_exactly(variant)]
        for strategy in (other_signs, other_blanks):
            yield [*strategy(variant)]
    yield from ([*same_words(variant)] for variant in variants)
    yield [*resembling(trimmed or search)]


def _without_blanks_around(search: Search) -> Search | None:
    """`old` without blank lines before it and blanks after it; its indentation stays. Those of `new` are as little
    meant."""
    old, new = search.old, search.new
    if not old.strip():
        return None
    if old[0].isspace():
        old, new = (_LEADING.sub("", text) for text in (old, new))
    if old[-1].isspace():
        old, new = old.rstrip(), new.rstrip()
    return search.asking(old, new, search.old) if old != search.old else None


def _unescaped(search: Search) -> Iterator[Search]:
    """Escapes that came once too often. Who escaped the one did so with the other, unless that has lines where this has
    none; and escapes that are meant stay: those of quotes alone come first."""
    is_new_plain = "\n" in search.new and "\n" not in search.old
    for escapes in (_QUOTES, _ESCAPES):
        old, new = (
            escapes.sub(lambda found: _MEANING.get(found[1], found[1]), part) for part in (search.old, search.new)
        )
        if old != search.old:
            yield search.asking(old, search.new if is_new_plain and "\n" in old else new, old)


def _exactly(variant: Search) -> Iterator[Place]:
    """A variant as it is, at places that are as far apart from what is around them as `old` says."""
    if elided(variant.old):
        return
    for at in variant.every(variant.text, variant.old):
        indent = variant.text[variant.text.rfind("\n", 0, at) + 1 : at]
        # several lines that come for one are moved to where it stands, as lines
        is_line = "\n" in variant.new and indent and not indent.strip()
        if not is_line and _is_apart(variant.text, at, at + len(variant.old), variant.asked):
            yield Place(at, at + len(variant.old), variant.old, variant.new, is_piece=True)


def _is_apart(text: str, start: int, end: int, old: str) -> bool:
    """Where `old` begins or ends with blanks, there are some here; more than one around a line are the line's own."""
    around = (text[text.rfind("\n", 0, start) + 1 : start], text[end:].partition("\n")[0])
    edges = (old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :])
    is_one = "\n" not in old.strip()
    return all(
        not edge or not beside.strip() or (beside[-1 if first else 0].isspace() and not (edge != " " and is_one))
        for first, beside, edge in zip((True, False), around, edges, strict=True)
    )


def lines_of(text: str) -> list[str]:
    """Only newlines end lines; str.splitlines knows nine more."""
    return text.removesuffix("\n").split("\n")


def _is_whole_word(text: str, start: int, end: int) -> bool:
    cuts = (text[at - 1 : at + 1] for at in (start, end) if 0 < at < len(text))
    return not any(re.fullmatch(r"\w\w", cut) for cut in cuts)
