"""Where a symbol stands in Python source, by its syntax tree. Pure: nothing is imported or run.

tree-sitter, and not the standard library's parser: hostile source may end the process in that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter_python
from tree_sitter import Language, Node, Parser

# Parsed in a tenth of a second; larger files are generated.
MAX_SOURCE_BYTES = 1024 * 1024
SYMBOL = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
DEFINITIONS = frozenset({"class_definition", "function_definition"})

_LANGUAGE = Language(tree_sitter_python.language())


def lines_of(source: bytes, symbol: str) -> tuple[int, int] | None:
    """First and last line (from 1) of a class, function, method or assigned name; None when it is not there.

    >>> lines_of(b"class A:\\n    @property\\n    def b(self):\\n        return 1\\n", "A.b")
    (2, 4)
    """
    if len(source) > MAX_SOURCE_BYTES:
        return None
    *outer, last = symbol.split(".")
    scope: Node | None = Parser(_LANGUAGE).parse(source).root_node
    for name in outer:
        scope = next((node for node in _members(scope) if node.type in DEFINITIONS and _name(node) == name), None)
        if scope is None:
            return None
    found = next((node for node in _members(scope) if _name(node) == last), None)
    if found is None:
        return None
    parent = found.parent
    whole = parent if parent is not None and parent.type == "decorated_definition" else found
    return whole.start_point.row + 1, whole.end_point.row + 1


def _members(scope: Node) -> Iterator[Node]:
    """Definitions and assignments of a scope in their order: inside its ifs and tries, not in its definitions."""
    waiting = scope.children[::-1]
    while waiting:
        node = waiting.pop()
        if node.type in DEFINITIONS or node.type == "assignment":
            yield node
        else:
            waiting += node.children[::-1]


def _name(node: Node) -> str:
    named = node.child_by_field_name("left" if node.type == "assignment" else "name")
    return (named.text or b"").decode("utf-8", "replace") if named is not None else ""
