"""Where a symbol stands in source text, by its syntax tree. Pure: nothing of it is imported or run.

Hostile source takes half a minute or all the memory: see `looking.py`, which runs this file in a process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node, Parser

from .grammars import GRAMMARS, Grammar, loaded

# Parsed in half a second; larger files are generated.
MAX_SOURCE_BYTES = 1024 * 1024
SYMBOL = re.compile(r"(?:[$#]|[^\W\d])[\w$]*(\.(?:[$#]|[^\W\d])[\w$]*)*")
# What belongs to a definition and stands around it: its decorators, `export`, `template <…>`.
AROUND = frozenset({"decorated_definition", "export_statement", "template_declaration"})
# What may hold several definitions, and is part of one that it begins with: `const a = …`, `type A struct …`.
GROUPS = frozenset(
    {"lexical_declaration", "variable_declaration", "expression_statement", "type_declaration", "const_declaration"}
    | {"var_declaration", "field_declaration", "local_variable_declaration"}
)
# Uses of a type look like definitions of it, but have no body.
NEEDS_BODY = frozenset({"struct_specifier", "union_specifier", "enum_specifier", "class_specifier"})
MAX_NAME_BYTES = 500
_BRACKETED = re.compile(r"<[^<>]*>")


def lines_of(source: bytes, symbol: str, language: str) -> tuple[int, int] | None:
    """First and last line (from 1) of a class, function, method, type, field or assigned name; None when it is not
    there. `language`: one of `GRAMMARS`.

    >>> lines_of(b"class A:\\n    @property\\n    def b(self):\\n        return 1\\n", "A.b", "Python")
    (2, 4)
    """
    if len(source) > MAX_SOURCE_BYTES:
        return None
    root, grammar = Parser(loaded(language)).parse(source).root_node, GRAMMARS[language]
    found = sorted(_found(root, tuple(symbol.split(".")), grammar), key=lambda node: _is_weak(node, grammar))
    if not found:
        return None
    whole = _whole(found[0])
    ends_before = whole.end_point.column == 0 < whole.end_point.row  # a line of the preprocessor takes its end along
    return whole.start_point.row + 1, whole.end_point.row + (0 if ends_before else 1)


def _is_weak(node: Node, grammar: Grammar) -> bool:
    """Is it a mere announcement, which counts if there is nothing else?"""
    named = node.child_by_field_name("declarator") if node.type == "field_declaration" else None
    return node.type in grammar.weak or (named is not None and named.type == "function_declarator")


def _found(scope: Node, wanted: tuple[str, ...], grammar: Grammar) -> Iterator[Node]:
    """The definitions of a name in a scope, in their order."""
    for node in _members(scope, grammar):
        for name in _names(node, grammar):
            if name == wanted:
                yield node
            elif name and name == wanted[: len(name)]:
                yield from _found(node, wanted[len(name) :], grammar)


def _members(scope: Node, grammar: Grammar) -> Iterator[Node]:
    """Definitions of a scope in their order: inside its ifs and tries, not in its definitions."""
    waiting = scope.children[::-1]
    while waiting:
        node = waiting.pop()
        if node.type in grammar.names and (node.type not in NEEDS_BODY or node.child_by_field_name("body")):
            yield node
        else:
            waiting += node.children[::-1]


def _names(node: Node, grammar: Grammar) -> list[tuple[str, ...]]:
    """What a definition is called, part by part; of several in one all."""
    named = node.children_by_field_name(grammar.names[node.type])
    inside = _receiver(node)
    return [(*inside, *_parts(_innermost(one))) for one in named]


def _receiver(node: Node) -> Sequence[str]:
    """In Go, whose method it is."""
    receiver = node.child_by_field_name("receiver")
    if receiver is None:
        return ()
    found = re.findall(r"[^\W\d]\w*", re.sub(r"\[.*", "", _text(receiver)))
    return found[-1:]


def _innermost(node: Node) -> Node:
    """What a C declarator is about: the name in `*(*name)(int)`."""
    while node.type.endswith("_declarator"):
        inner = node.child_by_field_name("declarator") or next(iter(node.named_children[-1:]), None)
        if inner is None:
            break
        node = inner
    return node


def _parts(node: Node) -> tuple[str, ...]:
    """`ns::Type<T>` and `exports.name` by their parts."""
    text = _text(node)
    while (shorter := _BRACKETED.sub("", text)) != text:
        text = shorter
    return tuple(part.strip(" \"'") for part in re.split(r"::|\.", text))


def _text(node: Node) -> str:
    return "" if node.end_byte - node.start_byte > MAX_NAME_BYTES else (node.text or b"").decode("utf-8", "replace")


def _whole(node: Node) -> Node:
    """The definition with what belongs to it."""
    while (parent := node.parent) is not None and (
        parent.type in AROUND or (parent.type in GROUPS and parent.start_point.row == node.start_point.row)
    ):
        node = parent
    return node
