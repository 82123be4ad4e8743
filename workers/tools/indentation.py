"""Moving lines from the indentation that a model wrote them in to the one of a file. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

_INDENT = re.compile(r"[ \t]*")
# A line with fewer letters stands everywhere, and shows nothing: `}`, `else`.
MIN_TELLING_CHARS = 5
MAX_INDENTATIONS = 64  # that one piece of text has; more are no code


def indent_of(line: str) -> str:
    found = _INDENT.match(line)
    return found[0] if found else ""


def body_of(line: str) -> str:
    return line[len(indent_of(line)) :]


def common_step(text: str) -> str:
    """By what lines are most often indented further than the line before; empty when none is."""
    indents = [indent_of(line) for line in text.split("\n") if line.strip()]
    deeper = (after.removeprefix(line) for line, after in pairwise(indents) if after != line and after.startswith(line))
    return next((step for step, _ in Counter(deeper).most_common(1)), "")


@dataclass(frozen=True, slots=True)
class Shift:
    """`known`: an indentation as written → as it is in the file. `unclear` are those that stand for several, `first` is
    that of the first line, which is clear in any case."""

    known: Mapping[str, str]
    unclear: frozenset[str] = frozenset()
    first: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, written: Sequence[str], there: Sequence[str]) -> Shift:
        """From lines that are the same but for their indentation."""
        pairs = [
            (indent_of(line), indent_of(other))
            for line, other in zip(written, there, strict=True)
            if line.strip() and other.strip()
        ]
        first, rest = (pairs[0], pairs[1:]) if pairs else (("", ""), [])
        if first[0] == "" and rest and all(line == other for line, other in rest):
            pairs = rest  # the first line alone lost its indentation
        known = dict(pairs)
        unclear = {line for line, other in pairs if known[line] != other}
        if not _is_ordered(known):
            unclear |= known.keys()
        return cls({line: other for line, other in known.items() if line not in unclear}, frozenset(unclear), first)

    @property
    def is_needed(self) -> bool:
        return bool(self.unclear) or any(line != other for line, other in (self.first, *self.known.items()))

    def moved(self, indent: str, written_step: str, file_step: str) -> str | None:
        """The nearest known indentation, and what is beyond it step by step; a dedent takes steps away. None when
        nobody knows where it would be."""
        inner = max((base for base in self.known if indent.startswith(base)), key=len, default=None)
        if any(indent.startswith(base) and len(base) >= len(inner or "") for base in self.unclear):
            return None
        if inner is not None:
            return self.known[inner] + _in_steps(indent.removeprefix(inner), written_step, file_step)
        nearest = min((base for base in self.known if base.startswith(indent)), key=len, default=None)
        if nearest is None:
            return indent if not self.known or indent in self.known.values() else None
        less = _in_steps(nearest.removeprefix(indent), written_step, file_step)
        return self.known[nearest].removesuffix(less) if self.known[nearest].endswith(less) else None


def moved_lines(lines: Sequence[str], shift: Shift, *, steps: tuple[str, str], has_first: bool) -> list[str] | None:
    """The lines where the file has them; `steps`: one more indentation as written, and in the file. `has_first`: the
    first of them is the first of the whole text."""
    after: list[str] = []
    for number, line in enumerate(lines):
        indent = indent_of(line)
        if not line.strip():
            moved = indent
        elif has_first and number == 0 and indent == shift.first[0]:
            moved = shift.first[1]
        else:
            moved = shift.moved(indent, *steps)
        if moved is None:
            return None
        after.append(moved + body_of(line))
    return after


def is_moved_already(new: Sequence[str], written: Sequence[str], there: Sequence[str]) -> bool:
    """Does `new` stand where the file has its lines, although `written`, which it replaces, does not?

    Lines that are in both say so; else where it begins. `there` are the lines of the file that `written` means.
    """
    places: dict[str, set[tuple[str, str]]] = {}
    for line, other in zip(written, there, strict=True):
        if len(line.strip()) >= MIN_TELLING_CHARS:
            places.setdefault(line.strip(), set()).add((indent_of(line), indent_of(other)))
    says_moved = says_written = 0
    for line in new:
        before, after = next(iter(places.get(line.strip(), ())), ("", ""))
        if before != after and len(places[line.strip()]) == 1:
            says_moved += indent_of(line) == after
            says_written += indent_of(line) == before
    if says_moved or says_written:
        return says_moved > says_written
    starts = [next((indent_of(line) for line in lines if line.strip()), "") for lines in (new, written, there)]
    least = min((indent_of(line) for line in there if line.strip()), key=len, default="")
    return starts[0] == starts[2] != starts[1] and all(line.startswith(least) for line in new if line.strip())


def _is_ordered(known: Mapping[str, str]) -> bool:
    if len(known) > MAX_INDENTATIONS:
        return False
    deeper = (pair for pair in permutations(known, 2) if pair[1].startswith(pair[0]))
    return all(len(known[one].expandtabs()) <= len(known[other].expandtabs()) for one, other in deeper)


def _in_steps(indent: str, written_step: str, file_step: str) -> str:
    if not written_step or not file_step:
        return indent
    count = 0
    while indent.startswith(written_step):
        indent, count = indent.removeprefix(written_step), count + 1
    return file_step * count + indent
