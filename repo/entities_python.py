"""The entities of Python's source text. Pure, on bytes; `Unclear` where in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from .entity import DOC, FUTURE, Entity, Frame, Unclear, entities_of, led, shown, text_of

IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
ACCESSORS = (".setter", ".getter", ".deleter")  # share their property's name


def entities(scope: Node, lines: Sequence[bytes], first: int, end: int) -> list[Entity]:
    """The statements of a module or of a class's body; see `entities_of`."""

    def read(node: Node, at: int, stop: int) -> Entity:
        one = _entity(node, lines, at, stop)
        return replace(one, key=DOC) if at == first and _is_string(node) else one

    return entities_of(scope, lines, first, end, is_above=lambda node: node.type == "comment", read=read)


def _entity(node: Node, lines: Sequence[bytes], first: int, end: int) -> Entity:
    lead, text = led(b"".join(lines[first:end]))
    inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
    assert inner is not None
    if inner.type in IMPORTS:
        return _import(inner, lead, text)
    if inner.type in ("function_definition", "class_definition"):
        name = text_of(inner.child_by_field_name("name")) + _accessor(node)
        head, body = _class(inner, lines, first, end) if inner.type == "class_definition" else (b"", ())
        return Entity(f"name {name}", lead, text, (name,), head=head, body=body)
    if (name := _assigned(inner)) is not None:
        return Entity(f"name {name}", lead, text, (name,))
    return Entity(shown(text), lead, text, is_named=False)


def _class(node: Node, lines: Sequence[bytes], first: int, end: int) -> tuple[bytes, tuple[Entity, ...]]:
    """The head's lines, and the entities of the body; nothing where they share a line or are hard to tell apart."""
    body = node.child_by_field_name("body")
    if body is None or not body.children or body.start_point.row <= node.start_point.row:
        return b"", ()
    _, head = led(b"".join(lines[first : body.start_point.row]))
    try:
        return head, tuple(entities(body, lines, body.start_point.row, end))
    except Unclear:
        return b"", ()


def _accessor(node: Node) -> str:
    decorators = (text_of(child).strip() for child in node.children if child.type == "decorator")
    return next((end for said in decorators for end in ACCESSORS if said.endswith(end)), "")


def _is_string(node: Node) -> bool:
    return node.type == "expression_statement" and [child.type for child in node.children] == ["string"]


def _assigned(node: Node) -> str | None:
    only = node.named_children[0] if node.type == "expression_statement" and len(node.named_children) == 1 else None
    left = only.child_by_field_name("left") if only is not None and only.type == "assignment" else None
    return text_of(left) if left is not None and left.type == "identifier" else None


def _import(node: Node, lead: bytes, text: bytes) -> Entity:
    """`from m import a, b as c` is known by its module, so that two of them can be united; others by what they say."""
    if node.type == "future_import_statement":
        return Entity(f"{FUTURE}{text_of(node)}", lead, text)
    imported = [" ".join(text_of(one).split()) for one in node.children_by_field_name("name")]
    binds = tuple(one.rpartition(" as ")[2] for one in imported)
    module = node.child_by_field_name("module_name")
    is_plain = imported and not any(child.type == "comment" for child in node.children) and b"#" not in text
    if module is None or not is_plain:
        return Entity(f"import {text.decode('utf-8', 'backslashreplace')}", lead, text, binds)
    start = f"from {text_of(module)} import "
    return Entity(
        start.removesuffix(" import "),
        lead,
        text,
        binds,
        names=tuple(imported),
        frame=Frame(start, "", f"{start}(", ")"),
    )
