"""Two changes of one source file, united by what it defines: each function, class or import comes from one side.

Pure, on bytes. Only for what can be told apart without doubt; everything else is None, and stays a conflict. Hostile
source takes half a minute or all the memory: `merge_entities.py` runs this file in a process of its own with bounds.
"""

from __future__ import annotations

import re
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tree_sitter import Language, Node, Parser

from .entities_braces import entities
from .entity import DOC, FUTURE, Entity, Frame, Unclear, led, row_after, text_of
from .syntaxes import SYNTAXES

# Parsed in half a second; larger files are generated.
MAX_SOURCE_BYTES = 1024 * 1024
# Ten times what the largest honest source needs.
MAX_CPU_S = 10
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
NO_ANSWER = 3  # exit code: cannot be united
MAX_LINE = 88  # of an import that is written anew
_WORDS = re.compile(rb"\w")

IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
ACCESSORS = (".setter", ".getter", ".deleter")  # share their property's name


def unite(base: bytes, ours: bytes, theirs: bytes, language: str = "Python") -> bytes | None:
    """What both sides made of `base`, or None when they changed the same thing, or it is not clear what is the same.

    >>> print(unite(b"import a\\n", b"import a\\nimport b\\n", b"import a\\nimport c\\n").decode(), end="")
    import a
    import b
    import c
    """
    try:
        merged = _merge(*(_read(side, language) for side in (base, ours, theirs)))
        told = _joined(merged)
        is_whole = _shape(_read(told, language)) == _shape(merged)
        marks = SYNTAXES[language].comments
        return told if is_whole and not _repeats_comments(told, ours, theirs, marks=marks) else None
    except Unclear:
        return None


# --- reading


def _read(source: bytes, language: str) -> list[Entity]:
    if len(source) > MAX_SOURCE_BYTES or (source and not source.endswith(b"\n")):
        raise Unclear
    syntax = SYNTAXES[language]
    root = Parser(Language(syntax.load())).parse(source).root_node
    if root.has_error:
        raise Unclear
    lines = source.splitlines(keepends=True) if b"\r" not in source.replace(b"\r\n", b"") else []
    if len(lines) != source.count(b"\n"):  # other characters end lines for Python than for the parser
        raise Unclear
    if language != "Python":
        return entities(root, lines, 0, len(lines), syntax)
    return _entities(root, lines, 0, len(lines))


def _entities(scope: Node, lines: Sequence[bytes], first: int, end: int) -> list[Entity]:
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
        return head, tuple(_entities(body, lines, body.start_point.row, end))
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


# --- uniting


def _merge(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> list[Entity]:
    old, mine, other = ({one.key: one for one in side} for side in (base, ours, theirs))
    for side in (mine, other):
        if [key for key in old if key in side] != [key for key in side if key in old]:
            raise Unclear  # somebody moved things about
    unnamed = [[one.key for one in side if not one.is_named] for side in (base, ours, theirs)]
    if unnamed[0] not in unnamed[1:] and unnamed[1] != unnamed[2]:
        raise Unclear  # both changed statements that have no name
    chosen = {key: _choose(old.get(key), mine.get(key), other.get(key)) for key in (*old, *mine, *other)}
    merged = [one for key in _order(old, mine, other) if (one := chosen[key]) is not None]
    bound, *before = (Counter(name for one in side for name in one.binds) for side in (merged, ours, theirs))
    if any(count > max(side[name] for side in before) for name, count in bound.items()):
        raise Unclear  # both gave a meaning to one name
    if not _has_its_top(merged):
        raise Unclear  # one side's top has pushed down the other's
    return merged


def _has_its_top(entities: Sequence[Entity]) -> bool:
    """The documentation, then imports from the future, then the rest."""
    places = [0 if one.key == DOC else 1 if one.key.startswith(FUTURE) else 2 for one in entities]
    return places == sorted(places)


def _repeats_comments(told: bytes, *sides: bytes, marks: tuple[bytes, ...]) -> bool:
    """A comment belongs to what is below it: where both put something below one, it would stand twice."""
    now, *before = (
        Counter(line for line in map(bytes.strip, text.splitlines()) if line.startswith(marks) and _WORDS.search(line))
        for text in (told, *sides)
    )
    return any(count > max(side[line] for side in before) for line, count in now.items())


def _choose(old: Entity | None, mine: Entity | None, other: Entity | None) -> Entity | None:
    """The side that changed it. None: it is gone."""
    texts = [one.text if one else None for one in (old, mine, other)]
    if texts[1] in (texts[0], texts[2]):
        return other
    if texts[2] == texts[0]:
        return mine
    if mine is None or other is None:
        raise Unclear  # gone on one side, changed on the other
    if mine.names and other.names and (old is None or old.names) and mine.frame == other.frame:
        return _import_of_both(old, mine, other)
    if old is not None and old.body and mine.body and other.body:
        return _class_of_both(old, mine, other)
    raise Unclear


def _import_of_both(old: Entity | None, mine: Entity, other: Entity) -> Entity:
    known = set(old.names) if old else set[str]()
    gone = known - set(other.names)
    names = [name for name in mine.names if name not in gone]
    names += [name for name in other.names if name not in known and name not in names]
    if not names:
        raise Unclear
    if list(mine.names) == sorted(mine.names, key=str.casefold):
        names.sort(key=str.casefold)
    frame = mine.frame
    assert frame is not None
    indent = mine.text[: len(mine.text) - len(mine.text.lstrip())].decode()
    line_end = "\r\n" if mine.text.endswith(b"\r\n") else "\n"
    text = f"{indent}{frame.start}{', '.join(names)}{frame.end}{line_end}"
    if len(text) > MAX_LINE or mine.text.count(b"\n") > 1:
        second = mine.text.decode().partition("\n")[2]
        step = second[: len(second) - len(second.lstrip())] or f"{indent}    "
        each = "".join(f"{step}{name},{line_end}" for name in names)
        text = f"{indent}{frame.start_of_many}{line_end}{each}{indent}{frame.end_of_many}{line_end}"
    return replace(mine, text=text.encode(), names=tuple(names), binds=tuple(name.split()[-1] for name in names))


def _class_of_both(old: Entity, mine: Entity, other: Entity) -> Entity:
    head = _side([old.head, mine.head, other.head])
    tail = _side([old.tail, mine.tail, other.tail])
    body = _merge(old.body, mine.body, other.body)
    return replace(mine, head=head, body=tuple(body), tail=tail, text=head + _joined(body) + tail)


def _side(texts: Sequence[bytes]) -> bytes:
    """The text of the side that changed it."""
    if texts[1] != texts[0] != texts[2] != texts[1]:
        raise Unclear
    return texts[2] if texts[1] == texts[0] else texts[1]


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
    merged = unite(base, ours, theirs, *sys.argv[1:])
    if merged is None:
        return NO_ANSWER
    sys.stdout.buffer.write(merged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
