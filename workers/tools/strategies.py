"""What in a text may be meant by a piece that is not in it word for word. Pure.

People and models know nine ways to look, in this order: exact, line-trimmed, block anchor, whitespace-collapsed,
indentation-insensitive, escape-decoded, outer blanks trimmed, context block, every exact occurrence. The first and the
last are `replace.apply_edit` itself. The fifth has no function: what differs only in indentation is found by the
second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .distance import similarity

MIN_SIMILARITY = 0.65  # of the middle lines on average: one of three may be another line altogether
MIN_EQUAL_LINES = 0.5  # of the middle lines that are not blank in both
MIN_BLOCK_LINES = 3  # two anchors, and something between them to compare
# Lines that stand at so many places anchor nothing: `{` and `}` of a generated file.
MAX_ANCHORED_BLOCKS = 50

_ESCAPED = re.compile(r"\\([nrt'\"`\\$\n])")
_MEANING = {"n": "\n", "r": "\r", "t": "\t"}  # the others mean themselves


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of the text that may be meant, and what was asked for in the terms in which it was found."""

    text: str
    old: str
    new: str


@dataclass(frozen=True)
class Search:
    """`old` is looked for in `text`, to become `new`; all else is derived. Lines are without their newlines."""

    text: str
    old: str
    new: str

    @cached_property
    def lines(self) -> list[str]:
        return _lines(self.text)

    @cached_property
    def stripped(self) -> list[str]:
        return [line.strip() for line in self.lines]

    @cached_property
    def wanted(self) -> list[str]:
        return [line.strip() for line in _lines(self.old)]

    @cached_property
    def starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def block(self, first: int, count: int) -> Found:
        """Whole lines of the text; with their last newline where `old` has one."""
        end = min(self.starts[first + count], len(self.text))
        piece = self.text[self.starts[first] : end]
        if not self.old.endswith("\n"):
            piece = piece.removesuffix("\n").removesuffix("\r")
        return Found(piece, self.old, self.new)

    def windows(self, count: int) -> range:
        """Where blocks of so many lines begin."""
        return range(len(self.lines) - count + 1)


Strategy = Callable[[Search], Iterator[Found]]


def line_trimmed(search: Search) -> Iterator[Found]:
    """Lines that equal but for the blanks at both ends of each."""
    wanted, stripped = search.wanted, search.stripped
    if not any(wanted):
        return
    for first in search.windows(len(wanted)):
        if stripped[first] == wanted[0] and stripped[first : first + len(wanted)] == wanted:
            yield search.block(first, len(wanted))


def block_anchor(search: Search) -> Iterator[Found]:
    """The block between the same first and last line whose middle is most alike, if it is alike enough."""
    if len(search.wanted) < MIN_BLOCK_LINES:
        return
    blocks = _anchored(search)
    if not blocks or len(blocks) > MAX_ANCHORED_BLOCKS:
        return
    wanted = len(search.wanted)
    alike = [(_middle_similarity(search, *block), -abs(block[1] - wanted), -block[0]) for block in blocks]
    best = max(range(len(blocks)), key=alike.__getitem__)
    if alike[best][0] >= MIN_SIMILARITY:
        yield search.block(*blocks[best])


def _anchored(search: Search) -> list[tuple[int, int]]:
    """First line and number of lines of each block between the anchors: of each start, the one nearest in length."""
    wanted, stripped = search.wanted, search.stripped
    slack = max(1, len(wanted) // 4)
    counts = sorted(
        range(max(MIN_BLOCK_LINES, len(wanted) - slack), len(wanted) + slack + 1), key=lambda n: abs(n - len(wanted))
    )
    starts = [first for first, line in enumerate(stripped) if line == wanted[0]]
    blocks: list[tuple[int, int]] = []
    for first in starts:
        ends = (n for n in counts if first + n <= len(stripped) and stripped[first + n - 1] == wanted[-1])
        if count := next(ends, None):
            blocks.append((first, count))
    return blocks


def _middle_similarity(search: Search, first: int, count: int) -> float:
    compared = min(count, len(search.wanted)) - 2
    pairs = zip(search.stripped[first + 1 : first + 1 + compared], search.wanted[1 : 1 + compared], strict=True)
    return sum(similarity(there, wanted) for there, wanted in pairs) / compared


def whitespace_collapsed(search: Search) -> Iterator[Found]:
    """The same words, whatever blanks stand between them: lines, a part of a line, or as many lines in all."""
    words, collapsed = search.old.split(), [" ".join(line.split()) for line in search.lines]
    count, wanted = len(search.wanted), " ".join(words)
    if not words:
        return
    if count == 1:
        anywhere = re.compile(r"\s+".join(map(re.escape, words)))
        for number, line in enumerate(collapsed):
            if line == wanted:
                yield search.block(number, 1)
            elif wanted in line and (part := anywhere.search(search.lines[number])):
                yield Found(part[0], search.old, search.new)
        return
    for first in search.windows(count):
        block = collapsed[first : first + count]
        if block[0] and block[-1] and wanted.startswith(block[0]) and " ".join(filter(None, block)) == wanted:
            yield search.block(first, count)


def escape_decoded(search: Search) -> Iterator[Found]:
    """The text that `old` is when its escapes are read, or lines that are the same when theirs are."""
    decoded = _decoded(search.old)
    if decoded != search.old:
        # who escaped the one once too often did so with the other
        yield Found(decoded, decoded, _decoded(search.new))
    wanted, lines = _lines(decoded), [_decoded(line.removesuffix("\r")) for line in search.lines]
    for first in search.windows(len(wanted)):
        if lines[first] == wanted[0] and lines[first : first + len(wanted)] == wanted:
            yield search.block(first, len(wanted))


def outer_blanks_trimmed(search: Search) -> Iterator[Found]:
    """`old` without the blanks around it. Those of `new` are as little meant."""
    if (inner := search.old.strip()) and inner != search.old:
        yield Found(inner, _without_outer_blanks(search.old, search.old), _without_outer_blanks(search.new, search.old))


def context_block(search: Search) -> Iterator[Found]:
    """As many lines between the same first and last, half of the others equal."""
    wanted, stripped = search.wanted, search.stripped
    count = len(wanted)
    if count < MIN_BLOCK_LINES:
        return
    for first in search.windows(count):
        if (stripped[first], stripped[first + count - 1]) != (wanted[0], wanted[-1]):
            continue
        middle = zip(stripped[first + 1 : first + count - 1], wanted[1:-1], strict=True)
        equal = [there == line for there, line in middle if there or line]
        if sum(equal) >= MIN_EQUAL_LINES * len(equal):
            yield search.block(first, count)


STRATEGIES: tuple[Strategy, ...] = (
    line_trimmed,
    block_anchor,
    whitespace_collapsed,
    escape_decoded,
    outer_blanks_trimmed,
    context_block,
)


def _lines(text: str) -> list[str]:
    """Only newlines end lines; str.splitlines knows nine more."""
    return text.removesuffix("\n").split("\n")


def _decoded(text: str) -> str:
    return _ESCAPED.sub(lambda escape: _MEANING.get(escape[1], escape[1]), text)


def _without_outer_blanks(text: str, old: str) -> str:
    """Without blank lines before it and blanks after it, on the sides where `old` has some; its indentation stays."""
    if old[0].isspace():
        text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text)
    return text.rstrip() if old[-1].isspace() else text
