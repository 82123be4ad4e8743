"""Replacing a piece of a text by what a model says stands there. Pure.

Two strategies, in order: the exact text, then the same lines whatever blanks they begin and end with. A match that is
ambiguous is an error and never falls through to a looser strategy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

BOM = "\ufeff"

Span = tuple[int, int]  # from and to, in characters


class EditRefused(Exception):
    """Why the text stays as it is, in words for the model."""


def apply_edit(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    """The text with `old` replaced by `new`: at its one place, or everywhere.

    The text's byte order mark and its line endings stay: both arguments are taken to have the text's own.
    """
    if old == new:
        raise EditRefused("oldString and newString are identical: there is nothing to change")
    if not old:
        raise EditRefused("oldString is empty, and the file exists; give the text to replace, or use write")
    bom = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    newline = "\r\n" if "\r\n" in body else "\n"
    old, new = (_with_newlines(part.removeprefix(BOM), newline) for part in (old, new))
    for find in STRATEGIES:
        spans = find(body, old)
        if len(spans) > 1 and not replace_all:
            raise EditRefused(
                f"oldString stands at {len(spans)} places; give more lines around it, or set replaceAll to change all"
            )
        if spans:
            return bom + _replaced(body, spans, old, new)
    raise EditRefused("oldString is not in the file; read it again and copy the text exactly")


def _exact(text: str, old: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def _line_trimmed(text: str, old: str) -> list[Span]:
    """Runs of whole lines that equal `old`'s lines but for blanks at both ends of each."""
    wanted = [line.strip() for line in _lines(old)]
    if not any(wanted):
        return []
    lines = _lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    spans: list[Span] = []
    for first in range(len(lines) - len(wanted) + 1):
        last = first + len(wanted)
        if [line.strip() for line in lines[first:last]] != wanted or (spans and starts[first] < spans[-1][1]):
            continue
        end = starts[last]
        if not old.endswith("\n"):
            end -= len(lines[last - 1]) - len(lines[last - 1].rstrip("\r\n"))
        spans.append((starts[first], end))
    return spans


STRATEGIES: tuple[Callable[[str, str], list[Span]], ...] = (_exact, _line_trimmed)


def _replaced(text: str, spans: list[Span], old: str, new: str) -> str:
    for start, end in reversed(spans):
        text = text[:start] + _indented_as(text[start:end], old, new) + text[end:]
    return text


def _indented_as(found: str, old: str, new: str) -> str:
    """`new`, moved from the indentation that `old` was written with to the one that was found."""
    meant, actual = _indent(old), _indent(found)
    if found == old or meant == actual:
        return new
    lines = new.splitlines(keepends=True)
    return "".join(
        actual + line.removeprefix(meant) if line.startswith(meant) and line.strip() else line for line in lines
    )


def _indent(text: str) -> str:
    first = next((line for line in _lines(text) if line.strip()), "")
    return "".join(takewhile(lambda char: char in " \t", first))


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only newlines end lines; str.splitlines knows nine more."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _with_newlines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)
