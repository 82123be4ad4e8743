"""Moving lines from the indentation that a model wrote them in to the one of a file. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

_INDENT = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class _Styles:
    """`known`: an indentation as written → as it is in the file; one step more, in both."""

    known: Mapping[str, str]
    written_step: str
    file_step: str

    def moved(self, indent: str) -> str:
        """The nearest known indentation, and what is beyond it step by step; a dedent takes steps away."""
        inner = max((base for base in self.known if indent.startswith(base)), key=len, default=None)
        if inner is not None:
            return self.known[inner] + self._steps(indent.removeprefix(inner))
        nearest = min((base for base in self.known if base.startswith(indent)), key=len, default=None)
        if nearest is not None:
            return self.known[nearest].removesuffix(self._steps(nearest.removeprefix(indent)))
        return indent

    def _steps(self, indent: str) -> str:
        if not self.written_step or not self.file_step:
            return indent
        count = 0
        while indent.startswith(self.written_step):
            indent, count = indent.removeprefix(self.written_step), count + 1
        return self.file_step * count + indent


def indented_as(found: str, before: str, old: str, new: str, file_step: str) -> str:
    """`new`, moved from the indentation that `old` was written with to the one that `found` has.

    `before` is what stands before `found` on its line, and stays there. Where `old` was found as it is written, or in
    another form but with its own indentation, `new` is left alone.
    """
    known = {} if found == old else _known(found, before, old)
    if all(written == there for written, there in known.items()):
        return new
    styles = _Styles(known, common_step(f"{old}\n{new}"), file_step)
    first, *rest = new.split("\n")
    first = first.removeprefix(_indent(old)) if before else _moved(first, styles)
    return "\n".join([first, *(_moved(line, styles) for line in rest)])


def common_step(text: str) -> str:
    """By what lines are most often indented further than the line before; empty when none is."""
    indents = [_indent(line) for line in text.split("\n") if line.strip()]
    deeper = (after.removeprefix(line) for line, after in pairwise(indents) if after != line and after.startswith(line))
    return next((step for step, _ in Counter(deeper).most_common(1)), "")


def _known(found: str, before: str, old: str) -> dict[str, str]:
    """From the lines that are the same in both, and from the first in any case."""
    known: dict[str, str] = {}
    pairs = zip(old.split("\n"), (before + found).split("\n"), strict=False)
    for number, (written, there) in enumerate(pairs):
        if written.strip() and (number == 0 or written.strip() == there.strip()):
            known.setdefault(_indent(written), _indent(there))
    return known


def _moved(line: str, styles: _Styles) -> str:
    if not line.strip():
        return line
    indent = _indent(line)
    return styles.moved(indent) + line.removeprefix(indent)


def _indent(line: str) -> str:
    found = _INDENT.match(line)
    return found[0] if found else ""
