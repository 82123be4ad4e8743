"""The entities of source text in a language with braces, by its `Syntax`. Pure, on bytes; `Unclear` where in doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from .entity import FUTURE, Entity, Frame, Unclear, entities_of, led, row_after, shown, text_of
from .syntaxes import Syntax

# Two of one name and different kind are two: a property's ways in and out.
KINDS = ("get", "set", "static")
_WORD = re.compile(r"[^\W\d]\w*")
_LIST = re.compile(r"\{([^{}]*)\}")
_NAMES = ("identifier", "type_identifier", "shorthand_property_identifier_pattern", "package_identifier")


def entities(scope: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax) -> list[Entity]:
    """The members of a scope; see `entities_of`."""
    return entities_of(
        scope,
        lines,
        first,
        end,
        is_above=lambda node: not node.is_named or node.type in syntax.above,
        read=lambda node, at, stop: _entity(node, lines, at, stop, syntax),
    )


def _entity(node: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax) -> Entity:
    lead, text = led(b"".join(lines[first:end]))
    if node.type in syntax.top or _is_directive(node):
        return Entity(f"{FUTURE}{text_of(node)}", lead, text)
    inner = _definition(node, syntax)
    head, body, tail = _body(inner, lines, first, end, syntax)
    if inner.type in syntax.imports or (inner is node and node.child_by_field_name("source") is not None):
        return _import(inner, lead, text, head, body, tail)
    binds = tuple(dict.fromkeys(_bound(inner, syntax)))
    if not binds:
        return Entity(shown(text), lead, text, is_named=False)
    if any(child.type == "default" for child in node.children):
        binds += ("default",)
    return Entity(f"name {' '.join(binds)}", lead, text, binds, head=head, body=body, tail=tail)


def _is_directive(node: Node) -> bool:
    return node.type == "expression_statement" and [child.type for child in node.named_children] == ["string"]


def _definition(node: Node, syntax: Syntax) -> Node:
    field = syntax.around.get(node.type)
    return (node.child_by_field_name(field) if field else None) or node


def _bound(node: Node, syntax: Syntax) -> Iterator[str]:
    """What a definition is called, with what tells it from others of its name. Nothing where it is none."""
    if fields := syntax.named.get(node.type):
        kinds = [child.type for child in node.children if child.type in KINDS]
        named = node.children_by_field_name(fields[-1]) if fields == ("name",) else [node]
        for one in named:
            told = text_of(one) if one is not node else " ".join(_told(node, field) for field in fields)
            yield " ".join([*kinds, told])
    elif node.type in syntax.values:
        for child in node.named_children:
            name = child.child_by_field_name("name")
            if name is not None and name.type in _NAMES:
                yield from _bound(child, syntax) if child.type in syntax.named else (text_of(name),)
            elif name is not None:
                yield from (text_of(one) for one in _leaves(name))
            else:
                yield from _bound(child, syntax)
    elif node.type == "expression_statement" and node.named_child_count == 1:
        only = node.named_children[0]
        left = only.child_by_field_name("left") if only.type == "assignment_expression" else None
        if left is not None and left.type == "member_expression":  # exports.name = …
            yield text_of(left)


def _told(node: Node, field: str) -> str:
    """A Go method is its type's, however the receiver is called and passed."""
    said = text_of(node.child_by_field_name(field))
    return (_WORD.findall(re.sub(r"\[.*", "", said)) or [""])[-1] if field == "receiver" else " ".join(said.split())


def _leaves(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.child_count == 0 and one.type in _NAMES:
            yield one
        waiting += one.children[::-1]


def _body(
    node: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax
) -> tuple[bytes, tuple[Entity, ...], bytes]:
    """The lines to the brace that opens, what is between, and those from the one that closes; nothing where these
    share a line, or members are hard to tell apart."""
    body = node.child_by_field_name("body") or next((one for one in node.children if one.type.endswith("_list")), None)
    if node.type not in syntax.bodies or body is None or body.child_count < 3:
        return b"", (), b""
    opens, closes = body.start_point.row, body.end_point.row
    inside = body.named_children
    if not inside or inside[0].start_point.row <= opens or max(map(row_after, inside)) > closes:
        return b"", (), b""
    _, head = led(b"".join(lines[first : opens + 1]))
    try:
        return head, tuple(entities(body, lines, opens + 1, closes, syntax)), b"".join(lines[closes:end])
    except Unclear:
        return b"", (), b""


def _import(node: Node, lead: bytes, text: bytes, head: bytes, body: tuple[Entity, ...], tail: bytes) -> Entity:
    """A list of names can be united with another one of the same frame; others are known by what they say."""
    if body:
        return Entity("imports", lead, text, head=head, body=body, tail=tail)
    binds = tuple(dict.fromkeys(_brought(node)))
    said = text_of(node)
    found = _LIST.findall(said)
    is_whole = text.strip() == said.encode() and not any(mark in said for mark in ("//", "/*", "*"))
    if len(found) != 1 or not is_whole:
        return Entity(f"import {shown(text)}", lead, text, binds)
    start, _, rest = said.partition("{")
    names = tuple(" ".join(name.split()) for name in found[0].split(",") if name.strip())
    start, end = f"{' '.join(start.split())}{' ' if start.endswith(' ') else ''}", rest.partition("}")[2]
    space = "" if node.type == "use_declaration" else " "
    frame = Frame(f"{start}{{{space}", f"{space}}}{end}", f"{start}{{", f"}}{end}")
    return Entity(f"from {start}{end}", lead, text, binds, names=names, frame=frame)


def _brought(node: Node) -> Iterator[str]:
    """The names that an import gives a meaning to."""
    if specs := [child for child in node.children if child.type == "import_spec"]:
        yield from _brought(specs[0])
    elif node.type == "import_spec":  # Go's: another name, or the path's last part
        name = node.child_by_field_name("name")
        yield text_of(name) or text_of(node.child_by_field_name("path")).strip('"`').rpartition("/")[2]
    elif node.type in ("use_declaration", "import_declaration", "extern_crate_declaration"):
        parts = re.sub(r"^.*\{|\}.*$", "", text_of(node), flags=re.DOTALL).split(",")
        yield from (
            words[-1] for part in parts if (words := _WORD.findall(part)) and not part.rstrip("; ").endswith("*")
        )
    else:
        yield from (text_of(one) for one in _leaves(node))
