"""The entities of Python's source text. Pure, on bytes; `Unclear` where in doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from .entity import DOC, FUTURE, Entity, Frame, Unclear, led, row_after, text_of

IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
ACCESSORS = (".setter", ".getter", ".deleter")  # share their property's name


def entities(scope: Node, lines: Sequence[bytes], first: int, end: int) -> list[Entity]:
    """The statements of a module or of a class's body, in whole lines; all lines from `first` to `end` are in one."""
    found: list[Entity] = []
    seen: Counter[str] = Counter()
    at = first
    for node in scope.children:
        if node.type == "comment":
            continue  # above the next statement, or behind the last one
        if node.start_point.row < at:
            raise Unclear  # two statements on one line
        stop = row_after(node)
        one = _entity(node, lines, at, stop)
        if not found and _is_string(node):
            one = replace(one, key=DOC)
        elif not one.is_named:  # told apart by what they say
            seen[one.key] += 1
            one = replace(one, key=f"{seen[one.key]} {one.key}")
        found.append(one)
        at = stop
    if rest := b"".join(lines[at:end]):
        found.append(Entity("end", *led(rest), is_named=False))
    if len({one.key for one in found}) != len(found):
        raise Unclear  # defined twice
    return found


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
    return Entity(text.decode("utf-8", "backslashreplace"), lead, text, is_named=False)


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
