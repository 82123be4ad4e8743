"""Replacing a piece of a text by what a model says stands there. Pure.

The exact text comes first; one that stands at several places is an error, and nothing looser is tried. Only where it
stands nowhere, `strategies` are asked what may be meant.
"""

from __future__ import annotations

from .errors import Refused
from .indentation import common_step, indented_as
from .strategies import STRATEGIES, Found, Search

BOM = "\ufeff"

# A looser search compares lines with lines and letters with letters. These are far more than an edit needs, and few
# enough that text made to be slow takes seconds and not hours.
MAX_LOOSE_TEXT_CHARS = 1024 * 1024
MAX_LOOSE_OLD_CHARS = 64 * 1024
MAX_LOOSE_COMPARISONS = 1_000_000

IDENTICAL = "oldString and newString are identical: there is nothing to change"


class EditRefused(Refused):
    """Why the text stays as it is, in words for the model."""


def apply_edit(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    """The text with `old` replaced by `new`: at its one place, or everywhere.

    The text's byte order mark and its line endings stay: both arguments are taken to have the text's own. What was
    found by a looser strategy is replaced in the indentation that it has.
    """
    body = text.removeprefix(BOM)
    bom, newline = text[: len(text) - len(body)], "\r\n" if "\r\n" in body else "\n"
    old, new = (_with_newlines(part.removeprefix(BOM), newline) for part in (old, new))
    if old == new:
        raise EditRefused(IDENTICAL)
    if not old:
        raise EditRefused("oldString is empty, and the file exists; give the text to replace, or use write")
    if old not in body:
        return bom + _loosely_replaced(body, old, new, replace_all=replace_all)
    if not replace_all and not _is_unique(body, old):
        places = max(2, body.count(old))
        raise EditRefused(
            f"oldString has multiple matches: it stands at {places} places; give more lines around it so that it is"
            " unique, or set replaceAll to change all"
        )
    return bom + body.replace(old, new)


def _loosely_replaced(body: str, old: str, new: str, *, replace_all: bool) -> str:
    absent = "oldString was not found in the file; read it again and copy the text exactly"
    if _is_too_large(body, old):
        raise EditRefused(f"{absent} (this is too much text to look for something similar)")
    search = Search(body, old, new)
    ambiguous: set[str] = set()
    for found in (found for strategy in STRATEGIES for found in strategy(search)):
        if found.text in ambiguous or found.text not in body:
            continue
        if _is_disproportionate(found.text, old):
            raise EditRefused(
                "what resembles oldString in the file is much larger than it, so it would remove more than was named;"
                " read the file again and copy the text exactly"
            )
        if replace_all or _is_unique(body, found.text):
            return _put(body, found)
        ambiguous.add(found.text)
    if ambiguous:
        raise EditRefused(
            "oldString was not found in the file as it is written, and what resembles it has multiple matches; copy"
            " the text exactly, with more lines around it"
        )
    raise EditRefused(absent)


def _put(body: str, found: Found) -> str:
    """The text with every occurrence replaced, each in the indentation of its place."""
    step = common_step(body)
    parts: list[str] = []
    done = 0
    while (at := body.find(found.text, done)) >= 0:
        before = body[body.rfind("\n", 0, at) + 1 : at]
        parts += [body[done:at], indented_as(found.text, before, found.old, found.new, step)]
        done = at + len(found.text)
    return "".join([*parts, body[done:]])


def _is_unique(text: str, part: str) -> bool:
    return text.find(part) == text.rfind(part)


def _is_too_large(body: str, old: str) -> bool:
    comparisons = (body.count("\n") + 1) * (old.count("\n") + 1)
    return len(body) > MAX_LOOSE_TEXT_CHARS or len(old) > MAX_LOOSE_OLD_CHARS or comparisons > MAX_LOOSE_COMPARISONS


def _is_disproportionate(found: str, old: str) -> bool:
    """Would replacing it take away far more than the model can have meant?"""
    found_lines, old_lines = found.count("\n") + 1, old.count("\n") + 1
    if found_lines >= max(old_lines + 3, 2 * old_lines):
        return True
    return found_lines > 1 and len(found) > max(len(old) + 500, 4 * len(old))


def _with_newlines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)
