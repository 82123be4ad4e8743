"""The entities of source text in a language with braces, by its `Syntax`. Pure, on bytes; `Unclear` where in doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tree_sitter import Node

from .entities_names import EVERYTHING, bound_in, exported_as
from .entities_twice import registers
from .entity import FUTURE, IMPORTS, Entity, Frame, Unclear, before_body, entities_of, led, row_after, text_of, value_of
from .syntaxes import Syntax
from .wording import as_text

# They tell a definition from others of its name where both may stand; `static` alone makes it another name.
KINDS = ("get", "set", "static")
_CLASS_MEMBERS = ("method_definition", "field_definition", "public_field_definition", "abstract_method_signature")
_WORD = re.compile(r"[^\W\d]\w*")
_LIST = re.compile(r"\{([^{}]*)\}")
_NAMES = ("identifier", "type_identifier", "shorthand_property_identifier_pattern", "package_identifier")
_LOUD = (
    *("call_expression", "new_expression", "await_expression", "yield_expression", "assignment_expression"),
    *("update_expression", "augmented_assignment_expression", "method_invocation", "object_creation_expression"),
)
_CODE = (
    *("arrow_function", "function_expression", "func_literal", "lambda_expression", "class_body"),
    "closure_expression",
)
# Calls that make a value and do nothing else.
_PURE_CALLS = re.compile(
    r"require|Symbol(\.for)?|Number|String|Boolean|BigInt|Array(\.of|\.from)?|Object\.(freeze|create|assign|keys|entries)"
    r"|(new )?(Map|Set|WeakMap|WeakSet|RegExp|Date|URL|Error|Array|Object)"
    r"|errors\.New|regexp\.MustCompile|make|new|len|cap|string|byte|int(8|16|32|64)?|uint(8|16|32|64)?|float(32|64)"
    r"|time\.Duration|(new )?(Array|Linked)(List|Deque)|(new )?(Linked|Concurrent)?Hash(Map|Set)|(new )?Tree(Map|Set)"
    r"|(new )?(Object|StringBuilder|ReentrantLock|Random|Atomic(Integer|Long|Boolean|Reference))"
    r"|(List|Set|Map|Optional|Path|Paths)\.(of|get|empty)|Pattern\.compile|LoggerFactory\.getLogger|Logger\.getLogger"
    r"|Duration\.of\w+|Arrays\.asList|Collections\.\w+|new (BigDecimal|BigInteger|String)"
)
_WITH_BODY = re.compile(r"function|method|constructor|class|impl_item")
_SCRIPTS = ("javascript", "typescript", "tsx")  # their decorators are code
_QUIET_MEMBERS = ("index_signature", "call_signature", "construct_signature", "empty_statement", "ambient_declaration")


def entities(scope: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax) -> list[Entity]:
    """The members of a scope; see `entities_of`."""
    return entities_of(
        scope,
        lines,
        first,
        end,
        is_above=lambda node: not node.is_named or node.type in syntax.above,
        read=lambda node, at, stop: replace(_entity(node, lines, at, stop, syntax), node=node),
    )


def _entity(node: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax) -> Entity:
    lead, text = led(b"".join(lines[first:end]))
    if node.type in syntax.top or _is_directive(node):
        return Entity(f"{FUTURE}{text_of(node)}", lead, text)
    inner = _definition(node, syntax)
    head, body, tail = _body(inner, lines, first, end, syntax)
    is_list = node.type == "export_statement" and any(child.type == "export_clause" for child in node.children)
    if inner.type in syntax.imports or is_list or (inner is node and node.child_by_field_name("source") is not None):
        return _import(inner, lead, text, head, body, tail, syntax)
    if (listed := _exported(node, lead, text)) is not None:
        return listed
    told, binds = _named(inner, syntax)
    if node.type == "export_statement":
        is_default = any(child.type == "default" for child in node.children)
        binds += ("export default",) if is_default else tuple(f"export {name}" for name in binds)
        told = told or (("default",) if is_default else ())
    acts = _acts(node, inner, text, syntax)
    registered = _registers(inner) if acts else ""
    if registered and not told:
        head, body, tail = _body(_block_of(inner) or inner, lines, first, end, syntax)
        key = f"call {registered}"
        return Entity(key, lead, text, head=head, body=body, tail=tail, acts=True, registers=registered)
    if not told:
        binds = tuple(dict.fromkeys((*binds, *bound_in(node))))
        return Entity(as_text(text), lead, text, binds, is_named=False, acts=acts)
    key = f"name {' '.join(told)}"
    about = Entity(key, lead, text, binds, head=head, body=body, tail=tail, acts=acts, registers=registered)
    if inner.type == "impl_item":
        kind, trait = impl_of(inner)
        about = replace(about, scope="" if trait else f"impl {kind}", binds=(f"impl {kind} {trait}",) if trait else ())
    code = _code_of(inner) or inner
    signature = before_body(node, code) if _WITH_BODY.search(code.type) else node.text or b""
    return replace(about, signature=signature, value=" ".join(_values(inner)))


def _registers(inner: Node) -> str:
    """A statement that only tells others of what it is given, or a variable that holds what comes of it."""
    only = inner.named_children[0] if inner.named_child_count == 1 else inner
    value = only.child_by_field_name("value")
    if value is not None and value.type == "expression_list" and value.named_child_count == 1:
        value = value.named_children[0]
    call = value if inner.type in ("var_declaration", "var_spec") else only
    listed = call.child_by_field_name("arguments") if call is not None else None
    is_plain = listed is not None and listed.named_child_count > 1 and all(map(_is_pure, listed.named_children))
    return registers(call) if is_plain else ""


def _block_of(statement: Node) -> Node | None:
    """The function's that a call is given, as its last argument."""
    call = statement.named_children[0] if statement.named_child_count == 1 else statement
    listed = call.child_by_field_name("arguments")
    last = listed.named_children[-1] if listed is not None and listed.named_children else None
    parameters = last.child_by_field_name("parameters") if last is not None else None
    return last if parameters is not None and not parameters.named_children else None


def _exported(node: Node, lead: bytes, text: bytes) -> Entity | None:
    """`module.exports = { a, b }`, a list of names like `export { a, b }`."""
    only = node.named_children[0] if node.type == "expression_statement" and node.named_child_count == 1 else None
    if only is None or only.type != "assignment_expression" or text.strip() != node.text:
        return None
    left, right = only.child_by_field_name("left"), only.child_by_field_name("right")
    if left is None or right is None or exported_as(text_of(left)) != "export *" or right.type != "object":
        return None
    names = tuple(text_of(one) for one in right.named_children)
    if not names or any(one.type != "shorthand_property_identifier" for one in right.named_children):
        return None
    start, end = f"{text_of(left)} = {{", text_of(node).rpartition("}")[2]
    binds = ("export *", *(f"export {name}" for name in names))
    frame = Frame(f"{start} ", f" }}{end}", start, f"}}{end}")
    return Entity("name export *", lead, text, binds, names=names, frame=frame)


def _is_directive(node: Node) -> bool:
    return node.type == "expression_statement" and [child.type for child in node.named_children] == ["string"]


def _definition(node: Node, syntax: Syntax) -> Node:
    field = syntax.around.get(node.type)
    return (node.child_by_field_name(field) if field else None) or node


def _named(node: Node, syntax: Syntax) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What tells a definition from others, and the names that it gives a meaning to. Nothing where it is none."""
    told = tuple(dict.fromkeys(_told(node, syntax)))
    kinds = {child.type for child in node.children} & {"get", "set"} if node.type in _CLASS_MEMBERS else set[str]()
    binds = [" ".join(word for word in name.split(" ") if word not in kinds) if kinds else name for name in told]
    return told, tuple(dict.fromkeys(name for name in binds if name != "_"))


def _told(node: Node, syntax: Syntax) -> Iterator[str]:
    if fields := syntax.named.get(node.type):
        kinds = [child.type for child in node.children if child.type in KINDS and node.type in _CLASS_MEMBERS]
        named = node.children_by_field_name(fields[-1]) if len(fields) == 1 else [node]
        for one in named:
            said = (
                _member(one) if one is not node else " ".join(_part(node, field) for field in fields).replace(" (", "(")
            )
            yield " ".join([*kinds, said])
    elif node.type in syntax.values:
        for child in node.named_children:
            name = child.child_by_field_name("name")
            if name is not None and name.type in _NAMES:
                yield from _told(child, syntax) if child.type in syntax.named else (text_of(name),)
            elif name is not None:
                yield from (text_of(one) for one in _leaves(name))
            else:
                yield from _told(child, syntax)
    elif node.type == "expression_statement" and node.named_child_count == 1:
        only = node.named_children[0]
        left, right = only.child_by_field_name("left"), only.child_by_field_name("right")
        if only.type == "assignment_expression" and left is not None and right is not None:
            said = text_of(left)
            if exported_as(said) and right.type != "assignment_expression":
                yield exported_as(said)
            elif re.fullmatch(r"[\w$]+(\.[\w$]+)+", said) and right.type in _CODE:
                yield said


def _code_of(node: Node) -> Node | None:
    """The function that a statement gives a name or a member of something."""
    only = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    right = only.child_by_field_name("right") if only is not None else None
    return right if right is not None and right.type in _CODE else None


def _member(name: Node) -> str:
    """`x`, `"x"` and `["x"]` are one name; what is computed may be any."""
    said = text_of(name)
    if name.type == "computed_property_name":
        inner = said[1:-1].strip()
        if inner.startswith("Symbol."):
            return said
        said = inner if inner[:1] in "'\"" and inner[:1] else EVERYTHING
    return said[1:-1] if said[:1] in ("'", '"') else said


def _part(node: Node, field: str) -> str:
    """A Go method is its type's, however the receiver is called and passed; a Java one is known by its erased
    parameters, a Rust `impl` by its header without the names of its parameters."""
    said = text_of(node.child_by_field_name(field))
    if field == "receiver":
        return (_WORD.findall(re.sub(r"\[.*", "", said)) or [""])[-1]
    if field == "parameters":
        return f"({','.join(_erased(node))})"
    if field in ("type_parameters", "where"):
        return ""
    return _plain_header(node, " ".join(said.split()))


def _plain_header(node: Node, said: str) -> str:
    """A Rust `impl` with its own parameters numbered: their names and bounds tell no two apart."""
    listed = node.child_by_field_name("type_parameters")
    if node.type != "impl_item" or listed is None:
        return said.replace(" ", "") if node.type == "impl_item" else said
    names = [re.split(r"[:=]", part)[0].split()[-1:] for part in text_of(listed)[1:-1].split(",") if part.strip()]
    for number, name in enumerate(each for part in names for each in part):
        said = re.sub(rf"(?<![\w']){re.escape(name)}(?!\w)", f"#{number}", said)
    return said.replace(" ", "")


def impl_of(node: Node) -> tuple[str, str]:
    """Whose it is, and of what trait, without their paths: `Error` and `From<ParseIntError>`. `*` is every type."""
    kind = bare(text_of(node.child_by_field_name("type")))
    trait = re.sub(r"\w+::|\s", "", text_of(node.child_by_field_name("trait")))
    listed = text_of(node.child_by_field_name("type_parameters"))
    return "*" if kind in re.findall(r"(?<=[<,])\s*(\w+)", listed) else kind, trait


def bare(said: str) -> str:
    return (re.findall(r"\w+", re.sub(r"<.*", "", said, flags=re.DOTALL)) or [""])[-1]


def _erased(node: Node) -> Iterator[str]:
    """The types of a Java method's parameters as the virtual machine knows them, without their packages."""
    bounds: dict[str, str] = {}
    around: Node | None = node
    while around is not None:
        for one in (around.child_by_field_name("type_parameters") or around).named_children:
            if one.type == "type_parameter":
                bound = next((child for child in one.named_children if child.type == "type_bound"), None)
                first = text_of(bound.named_children[0]) if bound is not None and bound.named_children else "Object"
                bounds.setdefault(text_of(next(c for c in one.named_children if c.type == "type_identifier")), first)
        around = around.parent
    parameters = node.child_by_field_name("parameters")
    for one in parameters.named_children if parameters else ():
        if one.type not in ("formal_parameter", "spread_parameter"):
            continue
        kind = one.child_by_field_name("type") or next(
            (child for child in one.named_children if child.type not in ("modifiers", "variable_declarator")), None
        )
        said = re.sub(r"<.*>", "", "".join(text_of(kind).split()), flags=re.DOTALL)
        dimensions = text_of(one.child_by_field_name("dimensions")) + ("[]" if one.type == "spread_parameter" else "")
        base, brackets = said.rstrip("[]"), said[len(said.rstrip("[]")) :]
        for _ in range(len(bounds)):
            base = re.sub(r"<.*", "", bounds.get(base, base), flags=re.DOTALL)
        yield base.rpartition(".")[2] + brackets + dimensions.replace(" ", "")


def _leaves(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.child_count == 0 and one.type in _NAMES:
            yield one
        waiting += one.children[::-1]


def _values(node: Node) -> Iterator[str]:
    """Of each constant that a declaration holds."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        value = one.child_by_field_name("value")
        if value is not None and one.type.endswith(("declarator", "_spec", "_item", "definition")):
            listed = value.named_children if value.type == "expression_list" else [value]
            yield from filter(None, map(value_of, listed))
        elif one is node or one.type in ("const_spec_list", "variable_declarator"):
            waiting += one.named_children


def _acts(node: Node, inner: Node, text: bytes, syntax: Syntax) -> bool:
    """It may run code of others when it is loaded."""
    if syntax.load.__name__ in _SCRIPTS and re.search(rb"^\s*@\w", text, re.MULTILINE):
        return True
    if inner.type in ("macro_definition", "macro_invocation", "class_static_block", "static_initializer"):
        return True
    if inner.type in ("const_item", "static_item", "import_declaration") or inner.type in _QUIET_MEMBERS:
        return False
    if inner.type == "function_declaration":
        return syntax.load.__name__ == "go" and text_of(inner.child_by_field_name("name")) == "init"
    if inner.type in syntax.named and not inner.type.endswith(("field_definition", "_spec")):
        return any(child.type == "class_static_block" for child in _members(inner))
    if inner.type == "expression_statement" and not any(True for _ in _told(inner, syntax)):
        return True
    is_value = inner.type in syntax.values or inner.type in syntax.named or inner.type == "expression_statement"
    return not (is_value and _is_pure(inner))


def _members(node: Node) -> list[Node]:
    body = node.child_by_field_name("body")
    return body.named_children if body is not None and body.type == "class_body" else []


def _is_pure(node: Node) -> bool:
    """Nothing in it runs but what makes a value."""
    is_export = node.type == "expression_statement"
    waiting = list(node.named_children[0].named_children) if is_export and node.named_children else [node]
    while waiting:
        one = waiting.pop()
        if one.type in _CODE:
            continue
        if one.type in _LOUD:
            called = one.child_by_field_name("function") or one.child_by_field_name("constructor")
            said = text_of(called or one.child_by_field_name("type"))
            if one.type == "method_invocation":
                said = f"{text_of(one.child_by_field_name('object'))}.{text_of(one.child_by_field_name('name'))}"
            is_new = one.type in ("new_expression", "object_creation_expression")
            said = ("new " if is_new else "") + re.sub(r"<.*>", "", said, flags=re.DOTALL)
            if not _PURE_CALLS.fullmatch(said):
                return False
        waiting += one.children
    return True


def _body(
    node: Node, lines: Sequence[bytes], first: int, end: int, syntax: Syntax
) -> tuple[bytes, tuple[Entity, ...], bytes]:
    """The lines to the brace that opens, what is between, and those from the one that closes; nothing where these
    share a line, or members are hard to tell apart."""
    body = node.child_by_field_name("body") or next((one for one in node.children if one.type.endswith("_list")), None)
    if node.type not in (*syntax.bodies, *_CODE) or body is None or body.child_count < 3:
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


def _import(
    node: Node, lead: bytes, text: bytes, head: bytes, body: tuple[Entity, ...], tail: bytes, syntax: Syntax
) -> Entity:
    """A list of names can be united with another one of the same frame; others are known by what they say."""
    if body:
        return Entity(IMPORTS, lead, text, head=head, body=body, tail=tail)
    binds = tuple(name for name in dict.fromkeys(_brought(node)) if name != "_")
    said = text_of(node)
    found = _LIST.findall(said)
    is_whole = text.strip() == said.encode() and not any(mark in said for mark in ("//", "/*", "*"))
    if len(found) != 1 or not is_whole:
        lines = (line.strip() for line in text.splitlines())
        told = as_text(b" ".join(line for line in lines if not line.startswith(syntax.comments)))
        told = told.removeprefix("import ")
        return Entity(f"import {told}", lead, text, binds, acts=not binds, origins=dict.fromkeys(binds, told))
    start, _, rest = said.partition("{")
    names = tuple(" ".join(name.split()) for name in found[0].split(",") if name.strip())
    start, end = f"{' '.join(start.split())}{' ' if start.endswith(' ') else ''}", rest.partition("}")[2]
    space = "" if node.type == "use_declaration" else " "
    frame = Frame(f"{start}{{{space}", f"{space}}}{end}", f"{start}{{", f"}}{end}")
    return Entity(f"from {start}{end}", lead, text, binds, names=names, frame=frame)


def _brought(node: Node) -> Iterator[str]:
    """The names that an import gives a meaning to, or an export gives away."""
    if specs := [child for child in node.children if child.type == "import_spec"]:
        yield from _brought(specs[0])
    elif node.type == "import_spec":  # Go's: another name, or what the path's last part says of the package
        name, path = text_of(node.child_by_field_name("name")), text_of(node.child_by_field_name("path")).strip('"`')
        last = re.sub(r"(/v\d+|\.v\d+)$", "", path).rpartition("/")[2]
        yield EVERYTHING if name == "." else name or re.sub(r"^go[-.]|[-.]go$", "", last)
    elif node.type in ("use_declaration", "extern_crate_declaration"):
        argument = node.child_by_field_name("argument") or node
        yield from _used(argument)
    elif node.type == "import_declaration":  # Java's
        words = _WORD.findall(text_of(node))
        yield EVERYTHING if any(child.type == "asterisk" for child in node.children) else words[-1]
    elif node.type == "export_statement":
        specs = [one for child in node.children if child.type == "export_clause" for one in child.named_children]
        given = (one.child_by_field_name("alias") or one.child_by_field_name("name") for one in specs)
        yield from (f"export {text_of(one)}" for one in given if one is not None)
        if not specs:
            star = next((child for child in node.children if child.type == "namespace_export"), None)
            yield f"export {text_of(star.named_children[-1])}" if star is not None else EVERYTHING
    else:
        for spec in _specs(node):
            yield text_of(spec.child_by_field_name("alias") or spec.child_by_field_name("name") or spec)


def _specs(node: Node) -> Iterator[Node]:
    """What a JavaScript import names: each once, whatever it is called where it comes from."""
    waiting = [child for child in node.children if child.type == "import_clause"]
    while waiting:
        one = waiting.pop()
        if one.type in ("import_specifier", "identifier"):
            yield one
        else:
            waiting += one.named_children[::-1]


def _used(node: Node) -> Iterator[str]:
    """Rust's: the last part of each path, unless it gets another name."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type == "use_wildcard":
            yield EVERYTHING
        elif one.type == "scoped_use_list":
            listed, path = one.child_by_field_name("list"), text_of(one.child_by_field_name("path"))
            for child in listed.named_children if listed is not None else ():
                if child.type == "self":
                    yield path.rpartition("::")[2]
                else:
                    waiting.append(child)
        elif one.type == "use_list":
            waiting += one.named_children
        elif (alias := one.child_by_field_name("alias")) is not None:
            yield text_of(alias)
        elif words := _WORD.findall(text_of(one).rstrip("; ")):
            yield words[-1]
