"""Putting a change that a model wrote into the lines of a file that it means. Pure.

What stays are the file's own lines, whatever the model made of them. What comes gets the indentation that the file has
there, and keeps the file's quotes, dashes and accents where the model only wrote them plainly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from .indentation import Shift, body_of, common_step, indent_of, is_moved_already, moved_lines
from .seek import Plain, collapsed, plain

Sign = Literal[" ", "-", "+"]
Line = tuple[Sign, str]

# Finding what stays takes time that grows with the square of the text; beyond this the whole part that differs goes.
MAX_COMPARISONS = 1_000_000
_TOKEN = re.compile(r"\w+|\s|[^\w\s]")


def change_of(old: Sequence[str], new: Sequence[str]) -> list[Line]:
    """The lines of `new` as a change of those of `old`."""
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    ends = zip(old[::-1][:most], new[::-1][:most], strict=True)
    end = next((n for n, (a, b) in enumerate(ends) if a != b), most)
    inner_old, inner_new = old[start : len(old) - end], new[start : len(new) - end]
    return [*_signed(" ", old[:start]), *_changed(inner_old, inner_new), *_signed(" ", old[len(old) - end :])]


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    if len(old) * len(new) > MAX_COMPARISONS:
        blocks = [("replace", 0, len(old), 0, len(new))]
    else:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, a, b, c, d in blocks:
        if kind == "equal":
            yield from _signed(" ", old[a:b])
        else:
            yield from _signed("-", old[a:b])
            yield from _signed("+", new[c:d])


def _signed(sign: Sign, lines: Sequence[str]) -> list[Line]:
    return [(sign, line) for line in lines]


def fitted_text(there: Sequence[str], old: Sequence[str], new: Sequence[str], file_step: str) -> list[str] | None:
    """The lines that are to stand in the place of `there`, which `old` means, for it to become `new`. None when the
    indentation of what comes cannot be told."""
    shift = Shift.of(*same_lines(old, there))
    if shift.is_needed and len(old) == len(there) and is_moved_already(new, old, there):
        old = [indent_of(other) + body_of(line) for line, other in zip(old, there, strict=True)]
    return fitted(there, change_of(old, new), file_step)


def fitted(there: Sequence[str], change: Sequence[Line], file_step: str) -> list[str] | None:
    """The lines of the file after a change whose old lines they are; None as in `fitted_text`."""
    written = [line for sign, line in change if sign != "+"]
    shift = Shift.of(*same_lines(written, there))
    added = [line for sign, line in change if sign == "+"]
    stays = any(sign == " " and line.strip() for sign, line in change)
    if shift.is_needed and not stays and is_moved_already(added, written, there):
        shift = Shift({})
    steps = (common_step("\n".join(line for _, line in change)), file_step)
    after: list[str] = []
    done = 0
    for is_first, kept, gone, come in _groups(change):
        replaced = there[done + kept : done + kept + len(gone)]
        is_first = is_first and not kept
        moved = moved_lines(come, shift, steps=steps, has_first=is_first) if shift.is_needed else come
        if moved is None:
            return None
        after += [*there[done : done + kept], *_in_signs_of(replaced, gone, moved)]
        done += kept + len(gone)
    return after


def same_lines(written: Sequence[str], there: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of both that are the same but for blanks and signs, which tell how lines are indented."""
    pairs = [(a, b) for a, b in zip(written, there, strict=False) if collapsed(a) == collapsed(b)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _groups(change: Sequence[Line]) -> Iterator[tuple[bool, int, list[str], list[str]]]:
    """How many lines stay, which go after them, and which come in their place; and whether it is the first such."""
    at, is_first = 0, True
    while at < len(change):
        kept, gone, come = 0, list[str](), list[str]()
        while at < len(change) and change[at][0] == " ":
            kept, at = kept + 1, at + 1
        while at < len(change) and change[at][0] != " ":
            (gone if change[at][0] == "-" else come).append(change[at][1])
            at += 1
        yield is_first, kept, gone, come
        is_first = False


def _in_signs_of(there: Sequence[str], gone: Sequence[str], come: list[str]) -> list[str]:
    """What comes, in the signs that the file has for the same words; `gone` are the file's lines as the model wrote
    them."""
    written, real = ("\n".join(map(str.strip, lines)) for lines in (gone, there))
    new = "\n".join(map(body_of, come))
    if written == real or not new or plain(written) != plain(real):
        return come
    indents = [indent_of(line) for line in come]
    bodies = _with_signs(written, real, new).split("\n")
    return [indent + body for indent, body in zip(indents, bodies, strict=True)]


def _with_signs(written: str, real: str, new: str) -> str:
    olds, news = (list(_TOKEN.finditer(text)) for text in (written, new))
    if len(olds) * len(news) > MAX_COMPARISONS:
        return new
    as_plain, of_file = Plain(written), Plain(real)
    if as_plain.text != of_file.text:
        return new
    same = SequenceMatcher(None, [t[0] for t in olds], [t[0] for t in news], autojunk=False).get_matching_blocks()
    parts: list[str] = []
    done = 0
    for block in same:
        if not block.size:
            continue
        start, end = news[block.b].start(), news[block.b + block.size - 1].end()
        span = of_file.span(as_plain.index(olds[block.a].start()), as_plain.index(olds[block.a + block.size - 1].end()))
        parts += [new[done:start], real[slice(*span)] if span else new[start:end]]
        done = end
    return "".join([*parts, new[done:]])
