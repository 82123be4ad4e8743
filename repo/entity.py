"""Entities: source text in pieces for merging, whole lines that define something, or do something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from .wording import as_text

# What only counts at the top of its scope.
DOC, FUTURE = "documentation", "future "
MAX_WORD = 100  # of what is compared with words
IMPORTS = "imports"  # those of Go that stand in brackets: what they bind is bound outside of these


@dataclass(frozen=True, slots=True)
class Entity:
    """Whole lines: `lead` are the blank ones before, `text` the comments above it and itself.

    `key` tells it from the others of its scope, `binds` are the names that it gives a value to, takes one from, or
    exports. `body`: the entities of a class, between its `head` and its `tail`. `names`: of an import that names
    several things, those; `frame`: what stands around them on one line, and on several. `is_named`: it defines or
    imports. `acts`: it may do more than give names a meaning when it is loaded, so that its place counts. `registers`:
    no more than telling others of itself, under this name: a route, a command, a test. `signature`: what those who use
    it rely on (all of it, if empty). `origins`: what a bound name stands for, where that is known. `scope`: what its
    members' names are compared in; its key, if empty. `value`: what a constant is set to.
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
    acts: bool = False
    registers: str = ""
    signature: bytes = b""
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    scope: str = ""
    value: str = ""
    node: Node | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Frame:
    """`from m import ` and nothing, or with brackets around lines of their own."""

    start: str
    end: str
    start_of_many: str
    end_of_many: str


class Unclear(Exception):
    """It cannot be told what belongs to what."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A node on the way down, with the field of its parent that it is in. (The parser's own nodes know neither: they
    look for both from the root of the tree, among all siblings, each time.)"""

    node: Node
    field: str = ""
    above: Visit | None = None

    def below(self) -> Iterator[Visit]:
        cursor = self.node.walk()
        goes_on = cursor.goto_first_child()
        while goes_on and cursor.node is not None:
            yield Visit(cursor.node, cursor.field_name or "", self)
            goes_on = cursor.goto_next_sibling()


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
    return as_text(node.text or b"") if node is not None else ""


def is_one_of(node: Node | None, texts: Collection[str]) -> bool:
    """Its text is; that of a long expression is not looked at."""
    return node is not None and node.end_byte - node.start_byte < MAX_WORD and text_of(node) in texts


def before_body(node: Node, inner: Node) -> bytes:
    """What is said of a definition before its body: all that its users rely on."""
    body = inner.child_by_field_name("body")
    text = node.text or b""
    return text[: body.start_byte - node.start_byte] if body is not None else text


def value_of(node: Node | None) -> str:
    """What a constant is set to, the same for each way of writing it; nothing for what has no content of its own.

    Numbers in their decimal form, `1 << 3` worked out; functions and names are no constants.
    """
    said = " ".join(text_of(node).split())
    if node is None or "function" in node.type or node.type == "lambda":
        return ""
    if shift := re.fullmatch(r"(\w+) ?<< ?(\w+)", said):
        left, right = (_number(side) for side in shift.groups())
        return str(left << right) if left is not None and right is not None and right < 256 else said
    number = _number(said)
    if number is not None:
        return str(number)
    return said if re.search(r"\d|(['\"`]).+\1", said) else ""


def _number(said: str) -> int | None:
    digits = re.sub(r"(?<=\d)(?:[uif](?:8|16|32|64|128|size)|[lLuUn])$", "", said)
    try:
        return int(digits, 0) if len(digits) < 40 else None
    except ValueError:
        return None
