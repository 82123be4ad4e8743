"""The entities of Python's source text. Pure, on bytes; `Unclear` where in doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tree_sitter import Node

from .entities_names import bound_in, imported
from .entities_twice import registers
from .entity import DOC, FUTURE, Entity, Frame, Unclear, before_body, entities_of, led, text_of, value_of
from .wording import as_text

IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
ACCESSORS = (".setter", ".getter", ".deleter")  # share their property's name
# Decorators that neither register what they are given nor mind what else is decorated.
_QUIET = re.compile(
    r"@\s*((\w+\.)?(property|staticmethod|classmethod|abstractmethod|override|final|overload|wraps|lru_cache|cache"
    r"|cached_property|contextmanager|asynccontextmanager|total_ordering|runtime_checkable|deprecated|unique|no_type_check"
    r"|dataclass|define|frozen|mutable|attrs|s)|\w+\.(setter|getter|deleter)|pytest\.(mark\.\w+|fixture)"
    r"|(unittest\.)?(skip|skipIf|skipUnless|expectedFailure)|(mock\.)?patch(\.\w+)?"
    r"|click\.(option|argument|pass_\w+|command|group|\w+_option))\s*(\(.*\))?\s*",
    re.DOTALL,
)
# Calls that make a value and do nothing else.
_PURE_CALLS = re.compile(
    r"(re\.compile|frozenset|set|dict|tuple|list|int|float|str|bytes|bool|complex|object|len|range|sorted|min|max|abs|round"
    r"|(pathlib\.)?(Pure)?Path|(decimal\.)?Decimal|(fractions\.)?Fraction|(collections\.)?(namedtuple|OrderedDict|Counter"
    r"|defaultdict|deque)|(typing\.)?(TypeVar|NewType|ParamSpec|NamedTuple)|logging\.getLogger|getLogger|os\.path\.\w+"
    r"|os\.environ\.get|os\.getenv|(datetime\.)?(timedelta|date|timezone)|(types\.)?(MappingProxyType|SimpleNamespace)"
    r"|(contextvars\.)?ContextVar|math\.\w+|(operator\.)?(itemgetter|attrgetter)|(threading\.)?(R?Lock|local)"
    r"|.*\.(format|join|split|encode|strip|upper|lower|union|keys|values|items|copy))"
)
_LOUD = ("call", "await", "yield", "named_expression")
# Bases whose bodies mean nothing by their order or their values.
_PLAIN_BASES = re.compile(
    r"(\w+\.)*(object|ABC|Protocol|Generic|dict|list|set|str|int|float|bytes|tuple|type|Exception|BaseException"
    r"|\w*(Error|Exception|Warning|TestCase|Mixin))(\[.*\])?",
    re.DOTALL,
)
_WHOLE_BASES = re.compile(
    r"(\w+\.)*\w*(Enum|Flag|NamedTuple|TypedDict|Model|Base|Schema|Struct|Structure|Union|Document|Table|Form|Serializer"
    r"|Entity|Record|Message|Settings)(\[.*\])?",
    re.DOTALL,
)
_WHOLE_DECORATORS = re.compile(
    r"@\s*(\w+\.)*(dataclass|dataclass_transform|define|frozen|mutable|attrs|s|attributes)\b"
)


Classes = Mapping[str, Sequence[tuple[Node, Node]]]  # of a file, by name: each with its decorators, and without


def entities(scope: Node, lines: Sequence[bytes], first: int, end: int, classes: Classes | None = None) -> list[Entity]:
    """The statements of a module or of a class's body; see `entities_of`."""
    known = _classes_in(scope) if classes is None else classes

    def read(node: Node, at: int, stop: int) -> Entity:
        one = replace(_entity(node, lines, at, stop, known), node=node)
        return replace(one, key=DOC, acts=False) if at == first and _is_string(node) else one

    return entities_of(scope, lines, first, end, is_above=lambda node: node.type == "comment", read=read)


def _classes_in(module: Node) -> Classes:
    found: dict[str, list[tuple[Node, Node]]] = {}
    for node in module.children:
        inner = node.child_by_field_name("definition") or node
        if inner.type == "class_definition":
            found.setdefault(text_of(inner.child_by_field_name("name")), []).append((node, inner))
    return found


def _entity(node: Node, lines: Sequence[bytes], first: int, end: int, classes: Classes) -> Entity:
    lead, text = led(b"".join(lines[first:end]))
    inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
    assert inner is not None
    if inner.type in IMPORTS:
        return _import(inner, lead, text)
    if inner.type in ("function_definition", "class_definition"):
        told = text_of(inner.child_by_field_name("name"))
        is_class = inner.type == "class_definition"
        head, body = _class(node, inner, lines, first, end, classes) if is_class else (b"", ())
        told += _accessor(node)
        about = Entity(f"name {told}", lead, text, (told,), head=head, body=body)
        acts = _acts(node, inner)
        registered = _registers(node, inner, told) if acts else ""
        return replace(about, signature=before_body(node, inner), acts=acts, registers=registered)
    binds = tuple(dict.fromkeys(bound_in(inner)))
    if (name := _assigned(inner)) is not None:
        value = inner.named_children[0].child_by_field_name("right")
        if name == "__all__" and (listed := _listed(inner, value, lead, text)) is not None:
            return listed
        return Entity(f"name {name}", lead, text, binds, acts=not _is_pure(value), value=value_of(value))
    if inner.type == "if_statement" and (block := _for_types(inner)) is not None:
        _, head = led(b"".join(lines[first : block.start_point.row]))
        with suppress(Unclear):
            body = tuple(entities(block, lines, block.start_point.row, end))
            return Entity("imports for types", lead, text, binds, is_named=False, head=head, body=body)
    acts = not _only_defines(inner)
    return Entity(as_text(text), lead, text, binds, is_named=False, acts=acts)


def _for_types(node: Node) -> Node | None:
    """The imports below `if TYPE_CHECKING`, which are as good as others above it."""
    said, block = text_of(node.child_by_field_name("condition")), node.child_by_field_name("consequence")
    is_alone = block is not None and node.child_by_field_name("alternative") is None
    if not re.fullmatch(r"(\w+\.)?TYPE_CHECKING", said) or block is None or not is_alone:
        return None
    is_below = block.start_point.row > node.start_point.row
    return block if is_below and all(child.type in IMPORTS for child in block.named_children) else None


def _class(
    node: Node, inner: Node, lines: Sequence[bytes], first: int, end: int, classes: Classes
) -> tuple[bytes, tuple[Entity, ...]]:
    """The head's lines, and the entities of the body; nothing where they share a line, are hard to tell apart, or mean
    something by their order."""
    body = inner.child_by_field_name("body")
    if body is None or not body.child_count or body.start_point.row <= inner.start_point.row:
        return b"", ()
    if _is_whole(node, inner, classes):
        return b"", ()
    _, head = led(b"".join(lines[first : body.start_point.row]))
    try:
        return head, tuple(entities(body, lines, body.start_point.row, end, classes))
    except Unclear:
        return b"", ()


def _is_whole(node: Node, inner: Node, classes: Classes, depth: int = 0) -> bool:
    """Enums, records, tables: what one side adds to them changes what the other one's additions mean."""
    if any(_WHOLE_DECORATORS.match(text_of(child)) for child in node.children if child.type == "decorator"):
        return True
    listed = inner.child_by_field_name("superclasses")
    bases = [text_of(base) for base in listed.named_children if base.type != "comment"] if listed else []
    strange = [base for base in bases if not _PLAIN_BASES.fullmatch(base) and base != "metaclass=ABCMeta"]
    if any(_WHOLE_BASES.fullmatch(base) or "=" in base for base in strange) or depth > 8:
        return True
    for base in list(strange):
        found = next((one for one in classes.get(base, ()) if one[1].id != inner.id), None)  # of the same file
        if found is not None:
            if _is_whole(*found, classes, depth + 1):
                return True
            strange.remove(base)
    strange += [text_of(child) for child in node.children if child.type == "decorator" and not _is_quiet(child)]
    return bool(strange) and _has_data(inner)


def _has_data(inner: Node) -> bool:
    """Fields, columns or constants, which a base or a decorator that nobody knows may collect in their order."""
    body = inner.child_by_field_name("body")
    for statement in body.named_children if body else ():
        only = statement.named_children[0] if statement.type == "expression_statement" else None
        if only is not None and only.type == "assignment":
            name = text_of(only.child_by_field_name("left"))
            if only.child_by_field_name("type") or not _is_literal(only.child_by_field_name("right")) or name.isupper():
                return True
    return False


def _is_literal(node: Node | None) -> bool:
    return node is None or node.type in ("string", "integer", "float", "true", "false", "none", "concatenated_string")


def _accessor(node: Node) -> str:
    decorators = (text_of(child).strip() for child in node.children if child.type == "decorator")
    return next((end for said in decorators for end in ACCESSORS if said.endswith(end)), "")


def _is_quiet(decorator: Node) -> bool:
    said = text_of(decorator)
    return _QUIET.fullmatch(said) is not None and "autouse" not in said


def _acts(node: Node, inner: Node) -> bool:
    """A definition that runs code of others when it is loaded: its decorators, defaults, or the body of a class."""
    if any(child.type == "decorator" and not _is_quiet(child) for child in node.children):
        return True
    if inner.type == "function_definition":
        return not _is_pure(inner.child_by_field_name("parameters"))
    body = inner.child_by_field_name("body")
    return any(
        not _is_string(child) and child.named_children[0].type in ("call", "await")
        if child.type == "expression_statement" and child.named_children
        else child.type in ("for_statement", "while_statement", "with_statement")
        for child in (body.named_children if body else ())
    )


def _registers(node: Node, inner: Node, name: str) -> str:
    """A function of which one decorator tells others, and the rest are quiet."""
    loud = [child.named_children[0] for child in node.children if child.type == "decorator" and not _is_quiet(child)]
    is_function = inner.type == "function_definition" and _is_pure(inner.child_by_field_name("parameters"))
    return registers(loud[0], name) if len(loud) == 1 and is_function else ""


def _is_pure(node: Node | None) -> bool:
    """It makes a value, and does nothing else."""
    waiting = [node] if node is not None else []
    while waiting:
        one = waiting.pop()
        if one.type == "lambda":
            continue
        if one.type in _LOUD:
            called = text_of(one.child_by_field_name("function"))
            if one.type != "call" or not _PURE_CALLS.fullmatch(called):
                return False
        waiting += one.children
    return True


def _only_defines(node: Node) -> bool:
    """A `try` or `if` that chooses between imports, and a name without a value."""
    if node.type in ("pass_statement", *IMPORTS):
        return True
    if node.type == "type_alias_statement" or _is_string(node):
        return True
    if node.type == "expression_statement":
        only = node.named_children[0] if node.named_children else node
        return only.type == "assignment" and _is_pure(only) and _targets_names(only)
    if node.type in ("try_statement", "if_statement", "else_clause", "except_clause", "elif_clause", "block"):
        return all(
            _only_defines(child)
            for child in node.named_children
            if child.type.endswith(("statement", "clause", "block"))
        ) and _is_pure(node.child_by_field_name("condition"))
    return False


def _targets_names(assignment: Node) -> bool:
    left = assignment.child_by_field_name("left")
    return left is not None and left.type in ("identifier", "pattern_list", "tuple_pattern")


def _is_string(node: Node) -> bool:
    return node.type == "expression_statement" and [child.type for child in node.children] == ["string"]


def _assigned(node: Node) -> str | None:
    only = node.named_children[0] if node.type == "expression_statement" and len(node.named_children) == 1 else None
    left = only.child_by_field_name("left") if only is not None and only.type == "assignment" else None
    return text_of(left) if left is not None and left.type == "identifier" else None


def _listed(node: Node, value: Node | None, lead: bytes, text: bytes) -> Entity | None:
    """`__all__`, whose order means nothing, if it is a list of nothing but names."""
    if value is None or value.type != "list" or text.strip() != node.text or b"#" in text:
        return None
    if any(child.type != "string" or b"\\" in (child.text or b"") for child in value.named_children):
        return None
    names = tuple(text_of(child) for child in value.named_children)
    start, bracket, _ = text_of(node).partition("[")
    frame = Frame(start + bracket, "]", start + bracket, "]")
    binds = ("__all__", *(f"export {name.strip(chr(34) + chr(39))}" for name in names))
    return Entity("name __all__", lead, text, binds, names=names, frame=frame)


def _import(node: Node, lead: bytes, text: bytes) -> Entity:
    """`from m import a, b as c` is known by its module, so that two of them can be united; others by what they say."""
    if node.type == "future_import_statement":
        return Entity(f"{FUTURE}{text_of(node)}", lead, text)
    names = [" ".join(text_of(one).split()) for one in node.children_by_field_name("name")]
    origins = imported(node)
    is_plain = names and not any(child.type == "comment" for child in node.children) and b"#" not in text
    module = node.child_by_field_name("module_name")
    if module is None or not is_plain:
        key = f"import {as_text(text)}"
        return Entity(key, lead, text, tuple(origins), origins=origins)
    start = f"from {text_of(module)} import "
    return Entity(
        start.removesuffix(" import "),
        lead,
        text,
        tuple(origins),
        names=tuple(names),
        frame=Frame(start, "", f"{start}(", ")"),
        origins=origins,
    )
