"""Replacing a piece of a text by what a model says stands there. Pure.

The exact text comes first; one that stands at several places is an error, and nothing looser is tried. Only where it
stands nowhere, `strategies` are asked what may be meant. Nothing goes that `old` does not name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .elision import elided, newly_elided
from .errors import Refused
from .fitting import fitted_text
from .indentation import Shift, common_step, moved_lines
from .seek import collapsed
from .splice import Splice, spliced
from .strategies import Place, Search, found_loosely

BOM = "\ufeff"

# A looser search prepares every line in several ways. These are far more than an edit needs, and few enough that text
# made to be slow takes seconds and not hours.
MAX_LOOSE_TEXT_CHARS = 1024 * 1024
MAX_LOOSE_OLD_CHARS = 64 * 1024
MAX_LOOSE_COMPARISONS = 1_000_000

MAX_SHOWN_PLACES = 5
MAX_SHOWN_LINE_CHARS = 200

IDENTICAL = "oldString and newString are identical: there is nothing to change"


class EditRefused(Refused):
    """Why the text stays as it is, in words for the model."""


@dataclass(frozen=True, slots=True)
class Edited:
    """`is_exact`: `old` stands in the text as it was written, but for line ends."""

    text: str
    is_exact: bool


def apply_edit(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    """The text with `old` replaced by `new`: at its one place, or everywhere."""
    return edited(text, old, new, replace_all=replace_all).text


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """The text with `old` replaced by `new`, and how it was found.

    The text's byte order mark and its line endings stay: both arguments are taken to have the text's own. What was
    found loosely is replaced in the indentation and the signs that it has, and lines that stay keep their bytes.
    """
    body = text.removeprefix(BOM)
    bom, lines = text[: len(text) - len(body)], body.replace("\r\n", "\n")
    old, new = (part.removeprefix(BOM).replace("\r\n", "\n") for part in (old, new))
    if old == new:
        raise EditRefused(IDENTICAL)
    if not old:
        raise EditRefused("oldString is empty, and the file exists; give the text to replace, or use write")
    if line := newly_elided(new, f"{old}\n{lines}"):
        raise EditRefused(
            f"newString has {line!r} in place of lines, which would be lost; write them out, or change less at once"
        )
    is_exact = old in lines
    splices = _exact(lines, old, new, everywhere=replace_all) if is_exact else _loose(lines, old, new, replace_all)
    is_exact = is_exact and all((each.end - each.start, each.text) == (len(old), new) for each in splices)
    after = bom + spliced(body, lines, splices)
    if after == text:
        raise EditRefused(f"this changes nothing: {_at(lines, [each.start for each in splices])} reads so already")
    return Edited(after, is_exact)


def _exact(lines: str, old: str, new: str, *, everywhere: bool) -> list[Splice]:
    places = [found.start() for found in re.finditer(re.escape(old), lines)]
    if not everywhere and lines.find(old) != lines.rfind(old):
        starts, at = list[int](), -1
        while (at := lines.find(old, at + 1)) >= 0 and len(starts) < max(2, len(places)):
            starts.append(at)
        raise EditRefused(
            f"oldString has multiple matches: it stands at {len(starts)} places, {_at(lines, starts)}; give more lines"
            " around it so that it is unique, or set replaceAll to change all"
        )
    return [_as_lines(lines, at, old, new) for at in places]


def _as_lines(lines: str, at: int, old: str, new: str) -> Splice:
    """Where whole lines go, the next one is none of them: it gets neither their indentation nor joins `new` for want of
    a newline. Who takes away nothing but a newline wants to join lines."""
    start, end = lines.rfind("\n", 0, at) + 1, at + len(old)
    are_lines = old.endswith("\n") and bool(old.strip()) and not lines[start:at].strip()
    if not are_lines or end == len(lines) or new == old[:-1] or new.endswith("\n"):
        return Splice(at, end, new)
    return Splice(at, end, f"{new}\n") if new else Splice(start, end, "")


def _loose(lines: str, old: str, new: str, everywhere: bool) -> list[Splice]:
    absent = "oldString was not found in the file; read it again and copy the text exactly"
    if _is_too_large(lines, old):
        raise EditRefused(f"{absent} (this is too much text to look for something similar)")
    search = Search.of(lines, old, new, everywhere=everywhere)
    places = next((found for found in found_loosely(search) if found), list[Place]())
    if not places and (line := elided(old)):
        raise EditRefused(
            f"oldString was not found: it leaves lines out ({line!r}), and must be the whole text that goes; change"
            " places that are far from each other in one call each"
        )
    if not places:
        raise EditRefused(absent + _nearest(search))
    if any(_is_disproportionate(lines[place.start : place.end], place.old) for place in places):
        raise EditRefused(
            "what resembles oldString in the file is much larger than it, so it would remove more than was named;"
            " read the file again and copy the text exactly"
        )
    if len(places) > 1 and not everywhere:
        raise EditRefused(
            "oldString was not found in the file as it is written, and what resembles it has multiple matches, at"
            f" {_at(lines, [place.start for place in places])}; copy the text exactly, with more lines around it"
        )
    step, splices = common_step(lines), list[Splice]()
    for place in places:
        if not splices or place.start >= splices[-1].end:
            splices.append(_fitted(lines, place, step))
    return splices


def _fitted(text: str, place: Place, step: str) -> Splice:
    """What goes and what comes, in whole lines. A loose match never joins lines: `new` ends as `old` does."""
    ends_line = place.is_piece and place.old.endswith("\n")
    start, last = text.rfind("\n", 0, place.start) + 1, place.end - ends_line
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    before, after = (text[start : place.start], text[last:end]) if place.is_piece else ("", "")
    there = text[start:end].split("\n")
    old, new = ((before + part.removesuffix("\n") + after).split("\n") for part in (place.old, place.new))
    if place.old.endswith("\n") and new == [""]:
        new = []  # the lines go, and not only what stands in them
    lines = _rewrapped(there, old, new, step) if place.is_rewrapped else fitted_text(there, old, new, step)
    if lines is None:
        raise EditRefused(
            f"oldString stands at {_at(text, [start])} with another indentation, and where newString belongs there"
            " cannot be told; read the file again and copy the text with its indentation"
        )
    return Splice(start, end, "\n".join(lines)) if lines else Splice(start, min(end + 1, len(text)), "")


def _rewrapped(there: Sequence[str], old: Sequence[str], new: Sequence[str], step: str) -> list[str] | None:
    shift = Shift.of(old[:1], there[:1])
    return moved_lines(new, shift, steps=(common_step("\n".join([*old, *new])), step), has_first=True)


def _at(text: str, starts: Sequence[int]) -> str:
    """
    >>> _at("a\\nb\\na\\n", [0, 4])
    'lines 1 and 3'
    """
    numbers = sorted({text.count("\n", 0, start) + 1 for start in starts[: MAX_SHOWN_PLACES + 1]})
    shown = [str(number) for number in numbers[:MAX_SHOWN_PLACES]]
    if len(starts) > MAX_SHOWN_PLACES:
        shown.append("more")
    return f"line {shown[0]}" if len(shown) == 1 else f"lines {', '.join(shown[:-1])} and {shown[-1]}"


def _nearest(search: Search) -> str:
    """Where most lines of `old` stand in the text, and the first one that differs; empty where none does."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(search.lines):
        places.setdefault(collapsed(line), []).append(number)
    wanted = [collapsed(line) for line in search.wanted]
    # a line that stands everywhere says nothing
    known = (
        (number, places[line])
        for number, line in enumerate(wanted)
        if line and len(places.get(line, ())) in range(1, 50)
    )
    votes = Counter(at - number for number, found in known for at in found)
    firsts = [first for first in votes if 0 <= first <= len(search.lines) - len(wanted)]
    if not firsts:
        return ""
    first = max(firsts, key=lambda at: (votes[at], -at))
    there = search.lines[first : first + len(wanted)]
    others = [n for n, line in enumerate(there) if line != search.wanted[n]]
    if not others:
        return ""
    at = next((n for n in others if collapsed(there[n]) != wanted[n]), others[0])
    return (
        f". The nearest to it are lines {first + 1} to {first + len(wanted)}, where line {first + at + 1} is"
        f" {there[at][:MAX_SHOWN_LINE_CHARS]!r} and not {search.wanted[at][:MAX_SHOWN_LINE_CHARS]!r}"
    )


def _is_too_large(body: str, old: str) -> bool:
    comparisons = (body.count("\n") + 1) * (old.count("\n") + 1)
    return len(body) > MAX_LOOSE_TEXT_CHARS or len(old) > MAX_LOOSE_OLD_CHARS or comparisons > MAX_LOOSE_COMPARISONS


def _is_disproportionate(found: str, old: str) -> bool:
    """Would replacing it take away far more than the model can have meant?"""
    found_lines, old_lines = found.count("\n") + 1, old.count("\n") + 1
    if found_lines >= max(old_lines + 3, 2 * old_lines):
        return True
    return found_lines > 1 and len(found) > max(len(old) + 500, 4 * len(old))
