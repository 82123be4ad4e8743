"""The names that source text gives a meaning to, and those that it uses: what two changes must not both be about.

Pure, on syntax trees. Where it errs, it names too much: that costs a conflict, never a wrong merge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from .entity import text_of

EVERYTHING = "*"  # bound by `from m import *` and the like: nobody can tell what
_IDENTIFIERS = (
    *("identifier", "type_identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"),
    "package_identifier",
)
_MEMBERS = ("property_identifier", "field_identifier", "private_property_identifier")
_SELF = ("self", "cls", "this", "Self", "super", "super()")
_FUNCTION = re.compile(r"^(function|method|constructor|generator_function|lambda|arrow_function)")
_DEFINES = re.compile(r"(?<!field_)(definition|declaration|signature|_item|_spec|alias|parameter)$")
_PARAMETERS = ("parameters", "parameter")
_COMMENT = re.compile(r"comment$")
# Python's and JavaScript's ways to bind a name inside a statement: type → the field with the target.
_ASSIGNMENTS = (
    *("assignment", "augmented_assignment", "for_statement", "for_in_statement", "type_alias_statement"),
    *("assignment_expression", "augmented_assignment_expression"),
)
_DEFINITIONS = (
    *("named_expression", "variable_declarator", "function_definition", "class_definition", "function_declaration"),
    *("class_declaration", "abstract_class_declaration", "generator_function_declaration", "function_signature"),
    *("internal_module", "module", "enum_declaration", "interface_declaration", "type_alias_declaration"),
)
_TARGET = {
    **dict.fromkeys(_ASSIGNMENTS, "left"),
    **dict.fromkeys(_DEFINITIONS, "name"),
    "update_expression": "argument",
}
_WHOLE = ("delete_statement", "as_pattern_target", "case_pattern", "global_statement")


def bound_in(node: Node, *, members: bool = True) -> Iterator[str]:
    """Every name that a statement may bind or unbind when it runs: inside `try`, `if`, `with`, `for` and `match`, too,
    but not what its functions do when they are called."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type in ("import_statement", "import_from_statement"):
            yield from imported(one) if one.child_by_field_name("source") is None else ()
            continue
        if field := _TARGET.get(one.type):
            for target in one.children_by_field_name(field):
                yield from _targets(target, members)
        if one.type in _WHOLE:
            yield from _targets(one, members)
        if one.type == "as_pattern":  # `except E as e`, `case C() as c`
            alias = one.child_by_field_name("alias") or one.named_children[-1]
            yield from _targets(alias, members)
        if one.type == "unary_expression" and text_of(one).startswith("delete"):
            yield from _targets(one.named_children[-1], members)
        if one.type not in ("function_definition", "class_definition", "lambda") and not _FUNCTION.match(one.type):
            waiting += one.children


def imported(node: Node) -> dict[str, str]:
    """Python's: each name with what it stands for."""
    module = text_of(node.child_by_field_name("module_name"))
    if any(child.type == "wildcard_import" for child in node.children):
        return {EVERYTHING: module}
    found: dict[str, str] = {}
    for one in node.children_by_field_name("name"):
        said, _, alias = " ".join(text_of(one).split()).partition(" as ")
        if module:
            found[alias or said] = f"{module}:{said}"
        else:  # `import a.b` gives `a` its meaning
            found[alias or said.partition(".")[0]] = said if alias else said.partition(".")[0]
    return found


def _targets(node: Node, members: bool) -> Iterator[str]:
    """The names in what is assigned to; of `a.b` and `a[b]` all of it, and `a`, whose value is another one then."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type in _IDENTIFIERS:
            yield text_of(one)
        elif one.type in ("attribute", "subscript", "member_expression", "subscript_expression", "field_access"):
            if not members:
                continue
            yield exported_as(text_of(one)) or text_of(one)
            first = one
            while first.named_children:
                first = first.named_children[0]
            if first.type in _IDENTIFIERS and text_of(first) not in ("exports", "module"):
                yield text_of(first)
        else:
            waiting += one.named_children


def exported_as(said: str) -> str:
    """`exports.a` and `module.exports.a` are one name.

    >>> exported_as("module.exports.a"), exported_as("exports.a"), exported_as("module.exports"), exported_as("a.b")
    ('export a', 'export a', 'export *', '')
    """
    found = re.fullmatch(r"(?:module\s*\.\s*)?exports\s*(?:\.\s*(\w+)|\[\s*['\"](\w+)['\"]\s*\])", said)
    if found:
        return f"export {found[1] or found[2]}"
    return "export *" if re.fullmatch(r"module\s*\.\s*exports|exports", said) else ""


def mentioned(node: Node | None, *, is_whole: bool = True) -> Counter[str]:
    """How often a name is used: `name` alone, `.name` of anything, `self.name` of the object itself. A function's own
    parameters and local names are not counted, comments and the names of definitions neither. Not `is_whole`: before
    the body alone."""
    found: Counter[str] = Counter()
    inner = node and (node.child_by_field_name("definition") or node.child_by_field_name("declaration") or node)
    body = inner.child_by_field_name("body") if inner and not is_whole else None
    waiting: list[tuple[Node, str, Node | None, frozenset[str]]] = [(node, "", None, frozenset())] if node else []
    while waiting:
        one, field, parent, local = waiting.pop()
        if field == "receiver":  # of a Go method: whose it is
            continue
        if _COMMENT.search(one.type) or (body is not None and one.id == body.id):
            continue
        if parent is not None and field == "name" and _DEFINES.search(parent.type):
            continue
        if parent is not None and field == "name" and parent.type in ("keyword_argument", "variable_declarator"):
            continue
        if implied := _implied(one):
            found[implied] += 1
        if one.type in _MEMBERS or one.type in _IDENTIFIERS:
            _count(found, one, field, parent, local)
        if one.type in ("function_definition", "lambda") or _FUNCTION.match(one.type):
            local |= _local(one)
        waiting += [(child, one.field_name_for_child(at) or "", one, local) for at, child in enumerate(one.children)]
    return found


def _count(found: Counter[str], node: Node, field: str, parent: Node | None, local: frozenset[str]) -> None:
    name = text_of(node)
    of = parent and (parent.child_by_field_name("object") or parent.child_by_field_name("operand"))
    of = of or (parent and parent.type == "field_expression" and parent.child_by_field_name("value")) or None
    is_member = node.type in _MEMBERS or (of is not None and field in ("attribute", "property", "field", "name"))
    if not is_member:
        found[name] += name not in local
        found[f"self.{name}"] += parent is not None and parent.type == "method_invocation"
        return
    found[f".{name}"] += 1
    found[f"self.{name}"] += of is not None and text_of(of) in _SELF


def _is_fixture(function: Node) -> bool:
    outer = function.parent
    around = outer.children if outer is not None and outer.type == "decorated_definition" else ()
    return any(child.type == "decorator" and "fixture" in text_of(child) for child in around)


def _implied(node: Node) -> str:
    """Python's: it compares objects or looks them up (`==`), or asks whether one is true."""
    is_name = any(child.type in ("identifier", "list_splat") for child in node.named_children)
    if node.type == "comparison_operator" and is_name:
        return "==" if {"==", "!=", "in", "not in"} & {child.type for child in node.children} else ""
    if node.type in ("set", "dictionary") and is_name:
        return "=="
    asks = ("if_statement", "while_statement", "conditional_expression", "not_operator", "boolean_operator", "assert")
    return "truth" if node.type in asks and is_name else ""


def _local(function: Node) -> frozenset[str]:
    """Its parameters; in Python, all that it assigns."""
    names: set[str] = set()
    is_given = text_of(function.child_by_field_name("name")).startswith("test") or _is_fixture(function)
    for field in () if is_given else _PARAMETERS:  # pytest finds what has the parameter's name
        if (parameters := function.child_by_field_name(field)) is not None:
            waiting = [parameters]
            while waiting:
                one = waiting.pop()
                if one.type == "identifier":
                    names.add(text_of(one))
                named = one.child_by_field_name("name") or one.child_by_field_name("pattern")
                keep = [named] if named is not None else one.named_children
                waiting += [child for child in keep if child.type != "type" and "annotation" not in child.type]
    body = function.child_by_field_name("body")
    if function.type == "function_definition" and body is not None and b"global " not in (body.text or b""):
        names.update(name for child in body.children for name in bound_in(child, members=False))
    return frozenset(names)
