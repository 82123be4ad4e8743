"""On which terms a function is called, or a record made: whether new ones serve the old calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from .entities_twice import leaves
from .entity import text_of

_MAY_BE_LEFT_OUT = (
    *("optional_parameter", "spread_parameter", "variadic_parameter_declaration", "list_splat_pattern"),
    *("dictionary_splat_pattern", "default_parameter", "typed_default_parameter", "assignment_pattern"),
    *("rest_pattern", "keyword_separator", "positional_separator"),
)
# Decorators that change nothing for who calls.
_SAME_TO_CALLERS = re.compile(
    r"@\s*(\w+\.)*(override|final|deprecated|no_type_check|abstractmethod|wraps\(.*\))\s*", re.S
)
_VISIBLE = re.compile(
    r"\b(public|private|protected|final|pub(\([^)]*\))?|export|default|override|abstract|synchronized)\b"
)
_RECORD = "record"


@dataclass(frozen=True, slots=True)
class Signature:
    """`parameters`: name or type, and whether one may leave it out. `order`: the names of those that have types."""

    about: str
    parameters: tuple[tuple[str, bool], ...]
    order: tuple[str, ...] = ()

    def is_more_of(self, old: Signature) -> bool:
        """A record with fields that were not there: only who makes one minds."""
        fields = {name for name, _ in self.parameters}
        return self.about == old.about == _RECORD and all(name in fields for name, _ in old.parameters)

    def serves(self, old: Signature) -> bool:
        """Whoever calls the old one, may call this one as well."""
        count, order = len(old.parameters), self.order[: len(old.order)]
        return (
            self.about == old.about
            and (order == old.order or sorted(order) != sorted(old.order))
            and [name for name, _ in self.parameters[:count]] == [name for name, _ in old.parameters]
            and all(now or not was for (_, now), (_, was) in zip(self.parameters, old.parameters, strict=False))
            and all(may for _, may in self.parameters[count:])
        )


def of_record(node: Node, body: Node | None) -> Signature:
    """Of Java's, and of Python's data classes: it is made by giving its fields."""
    if node.type == "record_declaration":
        return replace(signature_of(node), about=_RECORD)
    return Signature(_RECORD, tuple(_record_fields(body)))


def _record_fields(body: Node | None) -> Iterator[tuple[str, bool]]:
    for one in body.named_children if body is not None else ():
        only = one.named_children[0] if one.type == "expression_statement" and one.named_children else None
        if only is not None and only.type == "assignment" and only.child_by_field_name("type") is not None:
            yield text_of(only.child_by_field_name("left")), only.child_by_field_name("right") is not None


def signature_of(node: Node) -> Signature:
    """What is said of a function beside its parameters; Python's are known by their names, others by their types."""
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    is_python = node.type == "function_definition"
    listed = (
        tuple(_parameter(one, is_python) for one in parameters.named_children if "comment" not in one.type)
        if parameters is not None
        else ()
    )
    outer = around(node) if is_python else node
    end = parameters.start_byte if parameters is not None else node.end_byte
    about = (outer.text or b"")[: end - outer.start_byte].decode("utf-8", "replace")
    if is_python:
        decorators = [text_of(child) for child in outer.children if child.type == "decorator"]
        kept = [" ".join(one.split()) for one in decorators if not _SAME_TO_CALLERS.fullmatch(one)]
        kinds = [child.type for child in node.children if child.type == "async"] + ["yield"] * _yields(body)
        return Signature(" ".join([*kept, *kinds]), listed)
    behind = parameters.end_byte if parameters is not None else end
    stop = body.start_byte if body is not None else node.end_byte
    after = (
        (node.text or b"")[behind - node.start_byte : stop - node.start_byte].decode("utf-8", "replace").strip(" ;\n")
    )
    about = re.sub(r"@\w+(\([^)]*\))?", "", about)
    order = tuple(text_of(leaf) for leaf in _given_names(parameters))
    return Signature(" ".join(_VISIBLE.sub("", f"{about} {after}").split()), listed, order)


def _given_names(parameters: Node | None) -> Iterator[Node]:
    for one in parameters.named_children if parameters is not None else ():
        pattern = one.child_by_field_name("pattern")
        for named in one.children_by_field_name("name") or ([pattern] if pattern is not None else []):
            yield from leaves(named)


def _yields(body: Node | None) -> bool:
    """A function that is a generator: what it gives is not what it returns."""
    waiting = [body] if body is not None else []
    while waiting:
        one = waiting.pop()
        if one.type == "yield":
            return True
        waiting += [child for child in one.named_children if child.type not in ("function_definition", "lambda")]
    return False


def _parameter(one: Node, is_python: bool) -> tuple[str, bool]:
    may = (
        one.type in _MAY_BE_LEFT_OUT
        or one.child_by_field_name("value") is not None
        or text_of(one).startswith(("...", "*"))
    )
    if is_python:
        leaf = next(leaves(one.child_by_field_name("name") or one), None)
        return (text_of(leaf) if leaf is not None else text_of(one)), may
    kind = one.child_by_field_name("type")
    said = text_of(kind) if kind is not None else ""
    count = len(one.children_by_field_name("name")) or 1
    return " ".join(f"{said} {'x' * count}".split()), may


def around(node: Node) -> Node:
    parent = node.parent
    return parent if parent is not None and parent.type in ("decorated_definition", "export_statement") else node
