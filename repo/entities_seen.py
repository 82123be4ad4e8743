"""Members, local names, parameters, keys and the like: what source text says below its entities.

Pure, on syntax trees. `entities_clash.py` compares what versions say.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from tree_sitter import Node

from .entities_names import imported
from .entities_terms import Signature, of_record, signature_of
from .entities_twice import FUNCTIONS, LOCALS, STRINGS, doubled, doubled_impls, leaves
from .entity import Visit, is_one_of, text_of

_CLASSES = re.compile(r"^(abstract_)?class_(definition|declaration)$|^(interface|record|enum)_declaration$")
_FIELDS = {
    "field_declaration": "name",
    "public_field_definition": "name",
    "field_definition": "property",
    "property_signature": "name",
    "enum_variant": "name",
    "enum_constant": "name",
    "enum_assignment": "name",
}
_IDENTIFIERS = ("identifier", "type_identifier", "shorthand_property_identifier", "package_identifier")
_MEMBERS = ("property_identifier", "field_identifier", "private_property_identifier")
_TARGETS = (
    *("for_statement", "as_pattern_target", "for_in_statement", "named_expression", "for_expression", "range_clause"),
    *("enhanced_for_statement", "catch_formal_parameter", "for_in_clause"),
)
_DECLARES = (
    *("variable_declarator", "let_declaration", "struct_item", "enum_item", "trait_item", "type_spec", "const_spec"),
)
_BASES = ("class_heritage", "superclass", "super_interfaces", "extends_interfaces", "extends_type_clause")
_SELF = ("self", "cls", "this")

Place = tuple[str, str, str]  # a kind of name, where, the name
_FUNCTION_VALUES = ("function_expression", "arrow_function", "generator_function")
# Names of Rust that so many types have that they are nothing without their type's.
CONSTRUCTORS = frozenset({"new", "default", "from", "try_from", "from_str", "builder", "create", "open", "init"})


@dataclass(slots=True)
class Seen:
    """`defined`: with what is said of each. `used`: how often. `twice`: what one place holds more often than it can.
    `bound`: local names of Python's functions. `signatures`: of a function's name, `heads`: of a class's, with the text
    of its body. `asks`: what a base class, an interface or a trait asks of those who derive from it. `parts`: of a
    Rust type, `names_all`: how often code has to name all of them. `slots`: of a Python class. `members`: of a class,
    by its name. `open`: what other files may use, where the language has them say so."""

    defined: dict[Place, set[str]] = field(default_factory=dict[Place, set[str]])
    used: Counter[Place] = field(default_factory=Counter[Place])
    twice: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    bound: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    signatures: dict[str, set[Signature]] = field(default_factory=dict[str, set[Signature]])
    heads: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    asks: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    parts: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    names_all: Counter[str] = field(default_factory=Counter[str])
    slots: dict[str, str] = field(default_factory=dict[str, str])
    members: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    open: set[str] = field(default_factory=set[str])

    def define(self, kind: str, where: str, name: str, said: str) -> None:
        self.defined.setdefault((kind, where, name), set()).add(said)

    def member(self, of: str, name: str, said: str) -> None:
        self.define(".", "", name, said)
        self.members.setdefault(of, set()).add(name)

    def bases(self, name: str) -> set[str]:
        """All that a class is derived from, as far as the file says."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            head = self.heads.get(waiting.pop(), ("", ""))[0]
            new = set(re.findall(r"\w+", head.partition("(")[2] or head.partition("extends")[2])) - found
            found |= new
            waiting += new
        return found - {name}


@lru_cache(250)
def seen(root: Node) -> Seen:
    found = Seen()
    waiting: list[tuple[Visit, str, str]] = [(Visit(root), "", "")]  # with the class and the function that it is in
    while waiting:
        visit, of, inside = waiting.pop()
        node, parent = visit.node, visit.above.node if visit.above is not None else None
        if "comment" in node.type:
            continue
        kind = node.type
        if _CLASSES.match(kind) or kind in ("struct_item", "enum_item", "trait_item", "type_spec", "impl_item"):
            of = _class(found, node, _around(node, parent))
        elif FUNCTIONS.match(kind):
            inside = _function(found, node, _around(node, parent), of, inside)
        if _is_open(node) and (name := text_of(node.child_by_field_name("name"))):
            found.open.add(name)
        _definitions(found, node, parent, of, inside)
        _uses(found, visit, of, inside)
        _parts(found, node, parent)
        if node.child_count:
            found.twice.update((of, inside, *told) for told in doubled(node, parent))
        waiting += [(child, of, inside) for child in visit.below()]
    found.twice.update(doubled_impls(root))
    _leave_out_locals(found, root.text or b"")
    return found


def _leave_out_locals(found: Seen, text: bytes) -> None:
    """What is a function's own is no use of the file's names; but pytest finds fixtures by parameters' names."""
    for (kind, where, name), said in found.defined.items() if b"global " not in text else ():
        if kind == "x" and where:
            found.used["x", "", name] -= found.used["x", where, name]
            is_asked_for = where.rpartition(".")[2].startswith("test") or b"fixture" in text
            found.used["x", "", name] += is_asked_for and "parameter" in said


def _is_open(node: Node) -> bool:
    if node.type.endswith("_item"):
        return any(child.type == "visibility_modifier" for child in node.children)
    said = next((text_of(child) for child in node.children if child.type == "modifiers"), "")
    return node.type in ("method_declaration", "class_declaration") and "private" not in said


def _class(found: Seen, node: Node, outer: Node) -> str:
    if node.type == "impl_item":
        return text_of(node.child_by_field_name("type"))
    name, body = text_of(node.child_by_field_name("name")), node.child_by_field_name("body")
    start, end = outer.start_byte, body.start_byte if body is not None else node.end_byte
    head = " ".join((outer.text or b"")[: end - start].decode("utf-8", "replace").split())
    if node.type in ("class_definition", "class_declaration", "abstract_class_declaration"):
        found.heads[name] = (re.sub(r"\b(export|default|public)\b ?", "", head), text_of(body))
    is_record = re.search(r"@\s*(\w+\.)*dataclass|NamedTuple|@\s*(attrs?\.)?(s|define|frozen)\b", head) is not None
    if node.type == "record_declaration" or (node.type == "class_definition" and is_record):
        found.signatures.setdefault(name, set()).add(of_record(node, body))
    found.define("x", "", name, "class")
    return name


def _parts(found: Seen, node: Node, parent: Node | None) -> None:
    """Rust's variants and fields, Go's fields, and who has to name each of them, or gives each by its place."""
    if node.type in ("enum_item", "struct_item") and (body := node.child_by_field_name("body")) is not None:
        names = (text_of(one.child_by_field_name("name")) for one in body.named_children)
        found.parts[text_of(node.child_by_field_name("name"))] = frozenset(filter(None, names))
    elif node.type == "match_block":
        patterns = [
            text_of(one.child_by_field_name("pattern")) for one in node.named_children if one.type == "match_arm"
        ]
        if not any(re.fullmatch(r"_|[a-z]\w*", said) for said in patterns):
            found.names_all.update({name for said in patterns for name in re.findall(r"(\w+)::\w+", said)})
    elif node.type == "struct_expression" and ".." not in text_of(node):
        found.names_all[text_of(node.child_by_field_name("name")).rpartition("::")[2]] += 1
    elif node.type == "type_spec" and (kind := node.child_by_field_name("type")) and kind.type == "struct_type":
        fields = (leaf for one in kind.named_children for leaf in one.named_children if leaf.named_child_count)
        told = [text_of(name) for one in fields for name in one.children_by_field_name("name") or [one]]
        found.parts[text_of(node.child_by_field_name("name"))] = frozenset(
            f"{at} {name}" for at, name in enumerate(told)
        )
    elif node.type == "literal_value" and "literal_element" in [one.type for one in node.named_children[:1]]:
        kind = parent.child_by_field_name("type") if parent is not None else None
        found.names_all[text_of(kind).rpartition(".")[2]] += 1


def _around(node: Node, parent: Node | None) -> Node:
    """A definition with its decorators, or what exports it."""
    return parent if parent is not None and parent.type in ("decorated_definition", "export_statement") else node


def _function(found: Seen, node: Node, outer: Node, of: str, inside: str) -> str:
    named = node.child_by_field_name("name")
    name = text_of(named)
    parameters = node.child_by_field_name("parameters")
    for one in parameters.named_children if parameters is not None else ():
        for leaf in leaves(one.child_by_field_name("name") or one.child_by_field_name("pattern") or one):
            found.define("x", inside or f"{of}.{name}", text_of(leaf), "parameter")
    signature = signature_of(node, outer)
    if not inside:
        made = f"{_bare(of)}::{name}"
        is_constructor = node.type == "function_item" and of != "" and name in CONSTRUCTORS
        found.signatures.setdefault(made if is_constructor else name, set()).add(signature)
        is_value = re.search(r"@\s*(\w+\.)*\w*property\b", signature.about) or any(
            child.type in ("get", "set") for child in node.children
        )
        if is_constructor:
            found.define("::", "", made, "method")
        elif of or node.type == "method_declaration":
            found.member(of, name, "attribute" if is_value else "method")
        body = node.child_by_field_name("body")
        if of and asks(node, body, outer):
            found.asks.setdefault(of, set()).add(f"{name} {' '.join(text_of(parameters).split())}")
    return inside or f"{of}.{name}"


def asks(node: Node, body: Node | None, outer: Node) -> bool:
    """Who derives from its class has to have it."""
    if node.type in ("function_signature_item", "method_elem", "abstract_method_signature"):
        return True
    if node.type == "method_signature":
        return not any(child.type == "?" for child in node.children)
    if node.type == "method_declaration" and body is None:
        return True
    if node.type != "function_definition":
        return False
    return "abstractmethod" in text_of(outer).partition("def ")[0] or (
        body is not None and text_of(body).strip().endswith("...") and "Protocol" in _head_around(node)
    )


def _head_around(node: Node) -> str:
    one = node.parent
    while one is not None and one.type != "class_definition":
        one = one.parent
    return text_of(one.child_by_field_name("superclasses")) if one is not None else ""


def _definitions(found: Seen, node: Node, parent: Node | None, of: str, inside: str) -> None:
    kind = node.type
    if kind in _FIELDS and not inside:
        _field_of(found, node, of)
    if kind == "pair":
        key = text_of(node.child_by_field_name("key")).strip("'\"`")
        found.define("k", "", key, "key")
        if parent is not None and parent.type == "object":
            found.define(".", "", key, "key")
    if kind == "property_identifier" and parent is not None and parent.type == "enum_body":
        found.define(".", "", text_of(node), "constant")
    if kind in ("assignment", "assignment_expression"):
        left = node.child_by_field_name("left")
        is_member = left is not None and left.type in ("attribute", "member_expression")
        right = node.child_by_field_name("right")
        if left is not None and is_member and not inside and right is not None and right.type in _FUNCTION_VALUES:
            member = text_of(left.child_by_field_name("property"))
            found.define(".", "", member, "method")
            found.signatures.setdefault(member, set()).add(signature_of(right, right))
        elif left is not None and is_member and text_of(left.child_by_field_name("object")) in _SELF:
            member = left.child_by_field_name("attribute") or left.child_by_field_name("property")
            found.member(of, text_of(member), "attribute")
        if left is not None and of and not inside and left.type == "identifier":
            said = " ".join(text_of(node.child_by_field_name("type")).split())
            found.member(of, text_of(left), f"attribute {said}".strip())
            if text_of(left) == "__slots__":
                found.slots[of] = text_of(node)
    if kind in LOCALS and inside:
        for leaf in leaves(node.child_by_field_name(LOCALS[kind]) or node):
            found.define("x", inside, text_of(leaf), "local")
            if kind == "assignment":
                found.bound[inside, text_of(leaf)] += 1
    if inside and kind in _TARGETS:
        target = (
            node.child_by_field_name("left")
            or node.child_by_field_name("name")
            or node.child_by_field_name("pattern")
            or (node if kind == "as_pattern_target" else None)
        )
        for leaf in leaves(target) if target is not None else ():
            found.define("x", inside, text_of(leaf), "local")
    if (
        kind in ("import_statement", "import_from_statement")
        and node.child_by_field_name("source") is None
        and not inside
    ):
        deep = parent.type if parent is not None else ""
        for name, origin in imported(node).items():
            found.define("x", "", name, f"import {origin} {deep}")


def _field_of(found: Seen, node: Node, of: str) -> None:
    """A member that is declared, with its type and what is said of it, but for who may see it and its value."""
    declared = node.children_by_field_name("declarator")
    values = (one.child_by_field_name("value") for one in (node, *declared))
    value, text = next(filter(None, values), None), text_of(node)
    if value is not None and node.type != "enum_variant":
        text = text[: len(text) - len(text_of(value)) - 1]
    names = node.children_by_field_name(_FIELDS[node.type])
    names += [one.child_by_field_name("name") or one for one in declared]
    told = "|".join(re.escape(text_of(name)) for name in names)
    said = " ".join(re.sub(rf"(?<![\w.])(public|private|protected|pub|{told})(?!\w),?", "", text).split()).rstrip(" =;")
    is_untyped = node.type in ("public_field_definition", "field_definition") and ":" not in said
    for name in names:
        found.member(of, text_of(name), "attribute" if is_untyped else said)


def _uses(found: Seen, visit: Visit, of: str, inside: str) -> None:
    if visit.above is None:
        return
    node, parent, field_, kind = visit.node, visit.above.node, visit.field, visit.node.type
    if kind in _MEMBERS or kind in _IDENTIFIERS:
        name = text_of(node)
        if _is_definition(parent, field_):
            return
        is_of_another = (
            kind in _MEMBERS
            or field_ in ("attribute", "property", "field")
            or (parent.type in ("keyword_argument", "method_invocation") and field_ == "name")
        )
        is_path = parent.type in ("scoped_identifier", "scoped_type_identifier") and field_ == "name"
        if is_path and name in CONSTRUCTORS:
            owner = _bare(text_of(parent.child_by_field_name("path")))
            found.used["::", "", f"{_bare(of) if owner == 'Self' else owner}::{name}"] += 1
            is_of_another = owner[:1].isupper()  # a type's; modules begin with a small letter
        elif is_of_another or is_path or parent.type in ("field_initializer", "literal_element"):
            found.used[".", "", name] += 1
            owner = parent.child_by_field_name("object")
            is_own = owner is None and parent.type == "method_invocation"
            found.used["self.", "", name] += is_own or is_one_of(owner, _SELF)
        if kind in _IDENTIFIERS and not is_of_another:
            found.used["x", inside, name] += 1
            found.used["x", "", name] += inside != ""
            found.used["type", "", name] += (1 + (inside != "")) * _is_annotation(visit)
            if _is_called(node, parent, field_):
                found.used["make", "", name] += 1
            if _is_base(visit):
                found.used["base", "", name] += 1
        if parent.type in ("field_declaration", "block") and kind == "identifier":
            found.used["self.", "", name] += 1
    if kind in ("this", "self") or (kind == "identifier" and text_of(node) == "self"):
        found.used["this", "", of] += parent.type in ("argument_list", "arguments")
    if kind in STRINGS and (
        parent.type in ("subscript", "subscript_expression", "index_expression") or _is_looked_up(visit.above)
    ):
        found.used["k", "", text_of(node).strip("'\"`")] += 1


def _is_definition(parent: Node, field_: str) -> bool:
    if field_ == "name" and (parent.type in _FIELDS or FUNCTIONS.match(parent.type) or _CLASSES.match(parent.type)):
        return True
    if field_ == "key" and parent.type == "pair":
        return True
    if field_ == "property" and parent.type == "field_definition":
        return True
    return field_ in ("name", "pattern", "left") and parent.type in _DECLARES


def _bare(path: str) -> str:
    """The last name of a path in Rust, without what it is generic over."""
    return path.partition("<")[0].rpartition("::")[2].strip()


def _is_annotation(visit: Visit) -> bool:
    """It only says of what kind a value is, in Python or TypeScript."""
    one = visit.above
    for _ in range(20):  # deeper types are not written; an expression may be as deep as it is long
        if one is None or one.node.type in ("block", "module", "program", "argument_list"):
            return False
        if one.node.type in ("type", "type_annotation"):
            return True
        one = one.above
    return False


def _is_called(node: Node, parent: Node, field_: str) -> bool:
    return (
        (parent.type in ("call", "call_expression") and field_ == "function")
        or (
            parent.type in ("new_expression", "object_creation_expression", "composite_literal")
            and field_ in ("constructor", "type")
        )
        or (parent.type == "struct_expression" and field_ == "name" and ".." not in text_of(parent))
    )


def _is_base(visit: Visit) -> bool:
    node, above = visit.node, visit.above
    for _ in range(4):
        if above is None:
            return False
        one, above = above.node, above.above
        if one.type in _BASES:
            return True
        if one.type == "argument_list":
            return above is not None and above.node.type == "class_definition"
        if one.type == "impl_item":
            trait = one.child_by_field_name("trait")
            return trait is not None and trait.start_byte <= node.start_byte < trait.end_byte
        if one.type == "var_spec":  # Go's `var _ Reader = File{}`
            return text_of(one.child_by_field_name("name")) == "_"
    return False


def _is_looked_up(listed: Visit) -> bool:
    if listed.node.type not in ("argument_list", "arguments") or listed.above is None:
        return False
    called = listed.above.node.child_by_field_name("function")
    return called is not None and re.search(r"\.(get|pop|has|setdefault)$", text_of(called)) is not None
