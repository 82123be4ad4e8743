"""Putting new parts into a text whose lines may end in two ways. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from .fitting import change_of


@dataclass(frozen=True, slots=True)
class Splice:
    """`text` in the place of what stands from `start` to `end`."""

    start: int
    end: int
    text: str


def spliced(body: str, lines: str, splices: Sequence[Splice]) -> str:
    """The body after its splices, which are parts of its `lines` in their order: what stays keeps its bytes.

    `lines` is the body with newlines alone; `spliced("a\\r\\nb\\n", "a\\nb\\n", …)` keeps both kinds of ends.
    """
    parts: list[str] = []
    done = 0
    for splice in splices:
        parts += [lines[done : splice.start], splice.text]
        done = splice.end
    after = "".join([*parts, lines[done:]])
    if body == lines:
        return after
    ends = re.findall(r"\r?\n", body)
    if len(set(ends)) > 1:
        ends = _mixed_ends(lines, ends, splices)
        return "".join(line + end for line, end in zip(after.split("\n"), [*ends, ""], strict=True))
    return after.replace("\n", ends[0])


def _mixed_ends(lines: str, ends: Sequence[str], splices: Sequence[Splice]) -> list[str]:
    """How each line ends after the splices: as it did, or as the line that it replaces, or as the one before it."""
    newlines = [found.start() for found in re.finditer("\n", lines)]
    after: list[str] = []
    done = 0
    for splice in splices:
        first, last = (bisect_left(newlines, at) for at in (splice.start, splice.end))
        after += ends[done:first]
        staying, gone = iter(ends[first:last]), deque[str]()
        usual = after[-1] if after else ends[0]
        for sign, _ in change_of(*(text.split("\n")[:-1] for text in (lines[splice.start : splice.end], splice.text))):
            if sign == "-":
                gone.append(next(staying))
                continue
            if sign == " ":
                gone.clear()
                usual = next(staying)
            elif gone:
                usual = gone.popleft()
            after.append(usual)
        done = last
    return [*after, *ends[done:]]
