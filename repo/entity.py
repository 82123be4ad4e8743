"""What source text is made of, for merging: whole lines that define something, or do something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

# What only counts at the top of its scope.
DOC, FUTURE = "documentation", "future "


@dataclass(frozen=True, slots=True)
class Entity:
    """Whole lines: `lead` are the blank ones before, `text` the comments above it and itself.

    `key` tells it from the others of its scope, `binds` are the names that it gives a value to. `body`: the entities
    of a class, between its `head` and its `tail`. `names`: of an import that names several things, those; `frame`: what
    stands around them on one line, and on several. `is_named`: it defines or imports.
    """

    key: str
    lead: bytes
    text: bytes
    binds: tuple[str, ...] = ()
    is_named: bool = True
    head: bytes = b""
    body: tuple[Entity, ...] = ()
    tail: bytes = b""
    names: tuple[str, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """`from m import ` and nothing, or with brackets around lines of their own."""

    start: str
    end: str
    start_of_many: str
    end_of_many: str


class Unclear(Exception):
    """It cannot be told what belongs to what."""


def entities_of(
    scope: Node,
    lines: Sequence[bytes],
    first: int,
    end: int,
    *,
    is_above: Callable[[Node], bool],
    read: Callable[[Node, int, int], Entity],
) -> list[Entity]:
    """What a scope holds, in whole lines; all lines from `first` to `end` are in one.

    `is_above`: the node belongs to what is below it, or behind the last one. `read` gets a node and its lines' bounds.
    """
    found: list[Entity] = []
    seen: Counter[str] = Counter()
    at = first
    for node in scope.children:
        if is_above(node):
            if node.start_point.row < at <= node.end_point.row and row_after(node) > at:
                raise Unclear  # begins on a line with one statement, and ends on the next one's
            continue
        if node.start_point.row < at:
            raise Unclear  # two statements on one line
        stop = row_after(node)
        one = read(node, at, stop)
        if not one.is_named and one.key != DOC:  # told apart by what they say
            seen[one.key] += 1
            one = replace(one, key=f"{seen[one.key]} {one.key}")
        found.append(one)
        at = stop
    if rest := b"".join(lines[at:end]):
        found.append(Entity("end", *led(rest), is_named=False))
    if len({one.key for one in found}) != len(found):
        raise Unclear  # defined twice
    return found


def led(text: bytes) -> tuple[bytes, bytes]:
    """Blank lines, and the rest."""
    lines = text.splitlines(keepends=True)
    blank = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return b"".join(lines[:blank]), b"".join(lines[blank:])


def row_after(node: Node) -> int:
    ends_before = node.end_point.column == 0 < node.end_point.row
    return node.end_point.row + (0 if ends_before else 1)


def text_of(node: Node | None) -> str:
    return shown(node.text or b"") if node is not None else ""


def shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")
