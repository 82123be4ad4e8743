"""Things that stand twice where one alone can: a key, a case, a field, a local name, a route. Pure, on syntax trees."""

from __future__ import annotations

import builtins
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from .entity import text_of, value_of

FUNCTIONS = re.compile(
    r"^(function_definition|(generator_)?function_declaration|function_(item|signature|signature_item)"
    r"|(abstract_)?method_(definition|declaration|signature|elem)|abstract_method_signature|constructor_declaration)$"
)
STRINGS = ("string", "interpreted_string_literal", "string_literal")
LOCALS = {
    "variable_declarator": "name",
    "short_var_declaration": "left",
    "let_declaration": "pattern",
    "assignment": "left",
}
_BLOCKS = ("statement_block", "block", "statement_list")
_ENUM = re.compile(r"(Enum|Flag)\b")
_SIGNAL = re.compile(r"(\w+\.)?SIG[A-Z0-9]+")
_PLACEHOLDER = re.compile(r":\w+|\{[^}/]*\}|<[^>/]*>")
# Calls that tell others of a name, once for each.
_REGISTERS = re.compile(
    r"(.*\.)?(get|post|put|delete|patch|head|options|all|route|websocket|GET|POST|PUT|DELETE|PATCH|Handle|HandleFunc"
    r"|path|re_path|Route|add_argument|add_option|add_parser|add_url_rule|signal|register|subscribe|on|command|option|task|setdefault)"
)


# Those of them whose order means nothing, where no name takes what another one is for.
_ROUTES = r"[\w.]+\.(?:get|post|put|delete|patch|head|options|route|websocket)"
_BY_ARGUMENT = r"[\w.]+\.(?:errorhandler|exception_handler)"
_VERBS = {"get", "post", "put", "delete", "patch", "head", "options"}
_ANY_ORDER = re.compile(
    rf"{_ROUTES}|{_BY_ARGUMENT}|[\w.]+\.(?:command|group|task|filter|simple_tag)|shared_task|test|it|describe"
    r"|p?flag\.(?:Bool|Duration|Float64|Int|Int64|String|StringSlice|Uint|Uint64)"
)


def registers(call: Node | None, name: str = "") -> str:
    """What a call tells others of, if it does nothing else, and if what counts is under which name, not when: a route,
    a command (`name` where it says none), a test, a flag."""
    if call is None or call.type not in ("call", "call_expression"):
        return ""
    called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    said = "".join(text_of(called).split())
    if listed is None or not _ANY_ORDER.fullmatch(said):
        return ""
    first = next((one for one in listed.named_children if one.type != "keyword_argument"), None)
    if first is None:
        told = "" if re.search(r"\bname\s*=", text_of(listed)) else name
    elif re.fullmatch(_BY_ARGUMENT, said):
        told = text_of(first)
    else:
        is_text = first.type in STRINGS and not any(one.type == "interpolation" for one in first.children)
        told = text_of(first).strip("'\"`") if is_text else ""
    return f"{said} {told}" if told else ""


def may_change_places(one: str, other: str) -> bool:
    """Two that register mean the same in any order: neither takes what the other one is for.

    >>> may_change_places("app.get /a", "app.get /b/{n}"), may_change_places("app.get /a", "app.get /{n}")
    (True, False)
    """
    (said, _, told), (beside, _, path) = one.partition(" "), other.partition(" ")
    if not re.fullmatch(_ROUTES, said):
        return told != path
    verb, of_other = (name.rpartition(".")[2] for name in (said, beside))
    return (verb != of_other and {verb, of_other} <= _VERBS) or not _may_meet(told, path)


def _may_meet(route: str, other: str) -> bool:
    """Whether there is a path that both take."""
    if re.search(r"\*|\(|\bpath\b", route + other):
        starts = [re.split(r"[:{<*(]", one)[0] for one in (route, other)]
        return starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])
    parts, beside = route.split("/"), other.split("/")
    same = (one == another or re.search(r"[:{<]", one + another) for one, another in zip(parts, beside, strict=False))
    return len(parts) == len(beside) and all(same)


def doubled(node: Node, parent: Node | None) -> Iterator[tuple[str, ...]]:
    """What one place holds more often than once."""
    found = Counter(_single(node, parent))
    yield from (key for key, count in found.items() if count > 1)
    yield from _hidden(node)


def _single(node: Node, parent: Node | None) -> Iterator[tuple[str, ...]]:
    kind = node.type
    if kind in ("dictionary", "object", "literal_value", "field_initializer_list"):
        for one in node.named_children:
            key = one.child_by_field_name("key") or one.child_by_field_name("field") or one.child_by_field_name("name")
            if one.type in ("pair", "keyed_element", "method_definition", "field_initializer") and key is not None:
                yield "key", text_of(key).strip("'\"`")
            elif one.type == "shorthand_property_identifier":
                yield "key", text_of(one)
    elif kind == "argument_list":
        yield from (
            ("argument", text_of(one.child_by_field_name("name")))
            for one in node.named_children
            if one.type == "keyword_argument"
        )
    elif (
        kind in ("parameters", "formal_parameters", "parameter_list")
        and parent is not None
        and FUNCTIONS.match(parent.type)
    ):
        for one in node.named_children:
            for leaf in leaves(one.child_by_field_name("name") or one.child_by_field_name("pattern") or one):
                yield "parameter", text_of(leaf)
    elif kind in ("field_declaration_list", "enum_body", "enum_variant_list"):
        for one in node.named_children:
            names = one.children_by_field_name("name") or ([one] if one.type == "property_identifier" else [])
            yield from (("field", text_of(name)) for name in names)
            if kind != "field_declaration_list" and (value := value_of(one.child_by_field_name("value"))):
                yield "value", value
    elif kind in ("switch_body", "switch_block", "match_block", "expression_switch_statement", "block"):
        for one in node.named_children:
            if one.type in ("switch_case", "expression_case", "switch_block_statement_group", "switch_rule"):
                label = one.child_by_field_name("value") or next(
                    (child for child in one.children if child.type == "switch_label"), None
                )
                yield "case", " ".join(text_of(label).split())
            elif one.type in ("match_arm", "case_clause"):
                pattern = one.child_by_field_name("pattern") or one
                yield "case", " ".join(text_of(pattern if one.type == "match_arm" else one).partition(":\n")[0].split())
    yield from _of_block(node, parent)
    yield from (("call", said, told) for said, told in _registered(node))


def _of_block(node: Node, parent: Node | None) -> Iterator[tuple[str, ...]]:
    """Local names of languages in which a block can declare one once, and fields of Python's classes."""
    if node.type not in _BLOCKS or parent is None:
        return
    is_class = parent.type == "class_definition"
    is_enum = is_class and _ENUM.search(text_of(parent.child_by_field_name("superclasses"))) is not None
    for one in node.named_children:
        if one.type in ("lexical_declaration", "local_variable_declaration"):
            for child in one.named_children:
                if child.type == "variable_declarator":
                    yield from (("local", text_of(leaf)) for leaf in leaves(child.child_by_field_name("name") or child))
        elif one.type in ("short_var_declaration", "let_declaration"):
            names = [text_of(leaf) for leaf in leaves(one.child_by_field_name(LOCALS[one.type]) or one)]
            yield from (("local", name) for name in names if name not in ("_", "err", "ok"))
        elif (
            is_class
            and one.type == "expression_statement"
            and one.named_children
            and one.named_children[0].type == "assignment"
        ):
            only = one.named_children[0]
            yield "field", text_of(only.child_by_field_name("left"))
            if is_enum and (value := value_of(only.child_by_field_name("right"))):
                yield "value", value


def _registered(node: Node) -> Iterator[tuple[str, str]]:
    """Routes, options, handlers: what is called beside one another with a text that tells one from others."""
    if node.type not in (*_BLOCKS, "module", "program", "source_file", "list"):
        return
    for one in node.named_children:
        calls = [one] if node.type == "list" and one.type == "call" else []
        calls += [one.named_children[0]] if one.type == "expression_statement" and one.named_children else []
        calls += [
            child.named_children[0] for child in one.children if child.type == "decorator" and child.named_children
        ]
        for call in calls:
            called, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
            said = "".join(text_of(called).split())
            if called is None or listed is None or not _REGISTERS.fullmatch(said):
                continue
            for at, argument in enumerate(listed.named_children):
                told = text_of(argument)
                if (argument.type in STRINGS and (at == 0 or said.endswith("add_argument"))) or _SIGNAL.fullmatch(told):
                    yield said, told.strip("'\"`")


def _hidden(node: Node) -> Iterator[tuple[str, ...]]:
    """A case or a handler behind one that takes it as well, and routes of which one takes what another one is for."""
    arms = list(_arms(node))
    for at, (arm, head, is_wide) in enumerate(arms):
        for later, other, _ in arms[at + 1 :] if is_wide else ():
            if head in ("", other) or (other == "" and head in ("{", "[")):
                yield "hidden", arm, later
    handlers = list(_handlers(node))
    for at, some in enumerate(handlers):
        for others in handlers[at + 1 :]:
            yield from (("hidden", one, other) for one in some for other in others if _takes(one, other))
    routes = sorted({one for one in _registered(node) if one[1].startswith("/") or one[0] == "path"})
    for said, told in routes:
        if _PLACEHOLDER.search(told):
            parts = _PLACEHOLDER.split(told)
            pattern = re.compile("[^/]+".join(map(re.escape, parts)))
            first, end = (bisect_left(routes, (said, start)) for start in (parts[0], parts[0] + chr(sys.maxunicode)))
            found = (path for _, path in routes[first:end] if path != told and pattern.fullmatch(path))
            yield from (("hidden", said, told, path) for path in found)


def _arms(node: Node) -> Iterator[tuple[str, str, bool]]:
    """Of a `match`: each arm, what its pattern begins with (a name, a bracket, or nothing), and whether it takes more
    than one value."""
    for one in node.named_children if node.type in ("match_block", "block") else ():
        if one.type == "match_arm":
            pattern, guard = one.child_by_field_name("pattern"), None
            if pattern is not None and (guard := pattern.child_by_field_name("condition")) is not None:
                pattern = pattern.named_children[0]
        elif one.type == "case_clause":
            pattern, guard = one.named_children[0], one.child_by_field_name("guard")
        else:
            continue
        said = " ".join(text_of(pattern).split())
        bare = re.sub(r"b?(\"[^\"]*\"|'[^']*')|\b(true|false)\b", "", said)
        is_wide = re.search(r"(?<![\w.:])[a-z_]\w*(?!\w|::|\.\w)|\.\.|\*|\(\)|\{", bare) is not None
        head = re.match(r"(\w+(\.|::))*\w+(?=\s*[({])|(\w+(\.|::))+\w+|[A-Z]\w*|[\[{(]", said)
        yield f"{said}{' if' if guard else ''}", head[0] if head else "", is_wide or guard is not None


def _handlers(node: Node) -> Iterator[list[str]]:
    """Of a `try`: what each handler takes."""
    for one in node.named_children if node.type == "try_statement" else ():
        if one.type in ("except_clause", "except_group_clause", "catch_clause"):
            head = (one.text or b"")[: one.named_children[-1].start_byte - one.start_byte].decode("utf-8", "replace")
            name_or_word = r"\bas \w+|\w+\s*\)\s*$|\bfinal\b|^\w+"
            yield re.findall(r"[\w.]+", re.sub(name_or_word, "", head.strip())) or [""]


def _takes(one: str, other: str) -> bool:
    """The handler of an exception takes another one, too: what is known of Python's own, and that almost all are an
    `Exception`."""
    kinds = [getattr(builtins, name, None) for name in (one, other)]
    first, second = (kind if isinstance(kind, type) else None for kind in kinds)
    if first is not None and second is not None:
        return first is not second and issubclass(second, first)
    return one in ("", "Exception", "BaseException", "Throwable") and not re.search(r"^(Base)?Exception$|Error$", other)


def doubled_impls(root: Node) -> Iterator[tuple[str, ...]]:
    """Rust's traits of a type, by `derive` and by `impl`."""
    found: Counter[tuple[str, str]] = Counter()
    traits: list[str] = []
    for one in root.named_children:
        if one.type == "attribute_item":
            listed = re.findall(r"derive\(([^)]*)\)", text_of(one))
            traits += [word for names in listed for word in re.findall(r"\w+", names)]
        elif "comment" not in one.type:
            found.update((trait, text_of(one.child_by_field_name("name"))) for trait in traits)
            traits = []
            if one.type == "impl_item" and (trait := one.child_by_field_name("trait")) is not None:
                found[text_of(trait), text_of(one.child_by_field_name("type"))] += 1
    yield from (("impl", *key) for key, count in found.items() if count > 1)


def leaves(node: Node) -> Iterator[Node]:
    """The names in a pattern; not its type or default."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type in ("identifier", "shorthand_property_identifier_pattern"):
            yield one
        elif one.type not in ("type", "type_annotation", "attribute", "subscript", "member_expression", "call"):
            named = one.child_by_field_name("name") or one.child_by_field_name("pattern")
            waiting += [named] if named is not None else one.named_children[::-1]
