"""Two changes of one source file, united by what it defines: each function, class or import comes from one side.

Pure, on bytes. Only for what can be told apart without doubt; everything else is None, and stays a conflict. Hostile
source takes half a minute or all the memory: `merge_entities.py` runs this file in a process of its own with bounds.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Language, Node, Parser

# Parsed in half a second; larger files are generated.
MAX_SOURCE_BYTES = 1024 * 1024
# Ten times what the largest honest source needs.
MAX_CPU_S = 10
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
NO_ANSWER = 3  # exit code: cannot be united
MAX_LINE = 88  # of an import that is written anew

LANGUAGES = ("py", "pyi")
IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
# What only counts at the top of its scope.
DOC, FUTURE = "documentation", "future "
ACCESSORS = (".setter", ".getter", ".deleter")  # share their property's name


@dataclass(frozen=True, slots=True)
class Entity:
    """Whole lines: `lead` are the blank ones before, `text` the comments above it and itself.

    `key` tells it from the others of its scope, `binds` are the names that it gives a value to. `body`: the entities
    of a class, after its `head`. `names`: of `from … import`, what is imported. `is_named`: it defines or imports.
    """

    key: str
    lead: bytes
    text: bytes
    binds: tuple[str, ...] = ()
    is_named: bool = True
    head: bytes = b""
    body: tuple[Entity, ...] = ()
    names: tuple[str, ...] = ()


class _Unclear(Exception):
    """It cannot be told what belongs to what."""


def unite(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """What both sides made of `base`, or None when they changed the same thing, or it is not clear what is the same.

    >>> print(unite(b"import a\\n", b"import a\\nimport b\\n", b"import a\\nimport c\\n").decode(), end="")
    import a
    import b
    import c
    """
    try:
        merged = _merge(_read(base), _read(ours), _read(theirs))
        told = _joined(merged)
        is_whole = _shape(_read(told)) == _shape(merged)
        return told if is_whole and not _repeats_comments(told, ours, theirs) else None
    except _Unclear:
        return None


# --- reading


def _read(source: bytes) -> list[Entity]:
    if len(source) > MAX_SOURCE_BYTES or (source and not source.endswith(b"\n")):
        raise _Unclear
    root = Parser(_python()).parse(source).root_node
    if root.has_error:
        raise _Unclear
    lines = source.splitlines(keepends=True) if b"\r" not in source.replace(b"\r\n", b"") else []
    if len(lines) != source.count(b"\n"):  # other characters end lines for Python than for the parser
        raise _Unclear
    return _entities(root, lines, 0, len(lines))


def _python() -> Language:
    import tree_sitter_python

    return Language(tree_sitter_python.language())


def _entities(scope: Node, lines: Sequence[bytes], first: int, end: int) -> list[Entity]:
    """The statements of a module or of a class's body, in whole lines; all lines from `first` to `end` are in one."""
    found: list[Entity] = []
    seen: Counter[str] = Counter()
    at = first
    for node in scope.children:
        if node.type == "comment":
            continue  # above the next statement, or behind the last one
        if node.start_point.row < at:
            raise _Unclear  # two statements on one line
        stop = _row_after(node)
        one = _entity(node, lines, at, stop)
        if not found and _is_string(node):
            one = replace(one, key=DOC)
        elif not one.is_named:  # told apart by what they say
            seen[one.key] += 1
            one = replace(one, key=f"{seen[one.key]} {one.key}")
        found.append(one)
        at = stop
    if rest := b"".join(lines[at:end]):
        found.append(Entity("end", *_led(rest), is_named=False))
    if len({one.key for one in found}) != len(found):
        raise _Unclear  # defined twice
    return found


def _row_after(node: Node) -> int:
    ends_before = node.end_point.column == 0 < node.end_point.row
    return node.end_point.row + (0 if ends_before else 1)


def _led(text: bytes) -> tuple[bytes, bytes]:
    """Blank lines, and the rest."""
    lines = text.splitlines(keepends=True)
    blank = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return b"".join(lines[:blank]), b"".join(lines[blank:])


def _entity(node: Node, lines: Sequence[bytes], first: int, end: int) -> Entity:
    lead, text = _led(b"".join(lines[first:end]))
    inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
    assert inner is not None
    if inner.type in IMPORTS:
        return _import(inner, lead, text)
    if inner.type in ("function_definition", "class_definition"):
        name = _text(inner.child_by_field_name("name")) + _accessor(node)
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
    _, head = _led(b"".join(lines[first : body.start_point.row]))
    try:
        return head, tuple(_entities(body, lines, body.start_point.row, end))
    except _Unclear:
        return b"", ()


def _accessor(node: Node) -> str:
    decorators = (_text(child).strip() for child in node.children if child.type == "decorator")
    return next((end for said in decorators for end in ACCESSORS if said.endswith(end)), "")


def _is_string(node: Node) -> bool:
    return node.type == "expression_statement" and [child.type for child in node.children] == ["string"]


def _assigned(node: Node) -> str | None:
    only = node.named_children[0] if node.type == "expression_statement" and len(node.named_children) == 1 else None
    left = only.child_by_field_name("left") if only is not None and only.type == "assignment" else None
    return _text(left) if left is not None and left.type == "identifier" else None


def _import(node: Node, lead: bytes, text: bytes) -> Entity:
    """`from m import a, b as c` is known by its module, so that two of them can be united; others by what they say."""
    if node.type == "future_import_statement":
        return Entity(f"{FUTURE}{_text(node)}", lead, text)
    imported = [" ".join(_text(one).split()) for one in node.children_by_field_name("name")]
    binds = tuple(one.rpartition(" as ")[2] for one in imported)
    module = node.child_by_field_name("module_name")
    is_plain = imported and not any(child.type == "comment" for child in node.children) and b"#" not in text
    if module is None or not is_plain:
        return Entity(f"import {text.decode('utf-8', 'backslashreplace')}", lead, text, binds)
    return Entity(f"from {_text(module)}", lead, text, binds, names=tuple(imported))


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "backslashreplace") if node is not None else ""


# --- uniting


def _merge(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> list[Entity]:
    old, mine, other = ({one.key: one for one in side} for side in (base, ours, theirs))
    for side in (mine, other):
        if [key for key in old if key in side] != [key for key in side if key in old]:
            raise _Unclear  # somebody moved things about
    unnamed = [[one.key for one in side if not one.is_named] for side in (base, ours, theirs)]
    if unnamed[0] not in unnamed[1:] and unnamed[1] != unnamed[2]:
        raise _Unclear  # both changed statements that have no name
    chosen = {key: _choose(old.get(key), mine.get(key), other.get(key)) for key in (*old, *mine, *other)}
    merged = [one for key in _order(old, mine, other) if (one := chosen[key]) is not None]
    bound, *before = (Counter(name for one in side for name in one.binds) for side in (merged, ours, theirs))
    if any(count > max(side[name] for side in before) for name, count in bound.items()):
        raise _Unclear  # both gave a meaning to one name
    if not _has_its_top(merged):
        raise _Unclear  # one side's top has pushed down the other's
    return merged


def _has_its_top(entities: Sequence[Entity]) -> bool:
    """The documentation, then imports from the future, then the rest."""
    places = [0 if one.key == DOC else 1 if one.key.startswith(FUTURE) else 2 for one in entities]
    return places == sorted(places)


def _repeats_comments(told: bytes, *sides: bytes) -> bool:
    """A comment belongs to what is below it: where both put something below one, it would stand twice."""
    now, *before = (Counter(filter(_is_comment, map(bytes.strip, text.splitlines()))) for text in (told, *sides))
    return any(count > max(side[line] for side in before) for line, count in now.items())


def _is_comment(line: bytes) -> bool:
    return line.startswith(b"#")


def _choose(old: Entity | None, mine: Entity | None, other: Entity | None) -> Entity | None:
    """The side that changed it. None: it is gone."""
    texts = [one.text if one else None for one in (old, mine, other)]
    if texts[1] in (texts[0], texts[2]):
        return other
    if texts[2] == texts[0]:
        return mine
    if mine is None or other is None:
        raise _Unclear  # gone on one side, changed on the other
    if mine.names and other.names and (old is None or old.names):
        return _import_of_both(old, mine, other)
    if old is not None and old.body and mine.body and other.body:
        return _class_of_both(old, mine, other)
    raise _Unclear


def _import_of_both(old: Entity | None, mine: Entity, other: Entity) -> Entity:
    known = set(old.names) if old else set[str]()
    gone = known - set(other.names)
    names = [name for name in mine.names if name not in gone]
    names += [name for name in other.names if name not in known and name not in names]
    if not names:
        raise _Unclear
    if list(mine.names) == sorted(mine.names, key=str.casefold):
        names.sort(key=str.casefold)
    indent = mine.text[: len(mine.text) - len(mine.text.lstrip())].decode()
    line_end = "\r\n" if mine.text.endswith(b"\r\n") else "\n"
    start = f"{indent}{mine.key} import "
    text = f"{start}{', '.join(names)}{line_end}"
    if len(text) > MAX_LINE or mine.text.count(b"\n") > 1:
        each = "".join(f"{indent}    {name},{line_end}" for name in names)
        text = f"{start}({line_end}{each}{indent}){line_end}"
    return replace(mine, text=text.encode(), names=tuple(names), binds=tuple(n.rpartition(" as ")[2] for n in names))


def _class_of_both(old: Entity, mine: Entity, other: Entity) -> Entity:
    heads = (old.head, mine.head, other.head)
    if heads[1] != heads[0] != heads[2] != heads[1]:
        raise _Unclear
    head = heads[2] if heads[1] == heads[0] else heads[1]
    body = _merge(old.body, mine.body, other.body)
    return replace(mine, head=head, body=tuple(body), text=head + _joined(body))


def _order(old: dict[str, Entity], mine: dict[str, Entity], other: dict[str, Entity]) -> list[str]:
    """Ours; what is theirs alone comes behind what it stood behind, and behind what is ours alone at that place."""
    order = list(mine)
    last: str | None = None
    for key in other:
        if key not in mine and key not in old:
            at = order.index(last) + 1 if last is not None else 0
            while at < len(order) and last is not None and order[at] not in old and order[at] not in other:
                at += 1
            order.insert(at, key)
        if key in order:
            last = key
    return order


def _joined(entities: Sequence[Entity]) -> bytes:
    return b"".join(one.lead + one.text for one in entities)


def _shape(entities: Sequence[Entity]) -> list[tuple[bytes, list[bytes]]]:
    """What must be found again in what was put together. (Comments may change their statement at the end of a body.)"""
    return [(one.text, [inner.text for inner in one.body]) for one in entities if one.text]


# --- the process


def _versions(told: bytes) -> Iterator[bytes]:
    """Three times a line with a length, and so many bytes."""
    for _ in range(3):
        length, _, told = told.partition(b"\n")
        yield told[: int(length)]
        told = told[int(length) :]


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    base, ours, theirs = _versions(sys.stdin.buffer.read())
    merged = unite(base, ours, theirs)
    if merged is None:
        return NO_ANSWER
    sys.stdout.buffer.write(merged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
