"""Arithmetic in a shell text: which variables it evaluates, and which it sets. Pure.

Bash evaluates what a variable holds, and once more what that names: `x='a[$(rm y)]'; echo $((x))` runs `rm`. So a
variable may be evaluated only where all that the text ever puts into it is numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .syntax import COMPARED, Node, Unparsable, expanded_in, is_arithmetic, source_of, walk
from .variables import set_by_command
from .words import SimpleCommand, value_of

_NAME = re.compile(r"(?<![\w$])\$?([A-Za-z_]\w*)")
_POSITIONAL = re.compile(r"\$\{?[#!]?(?:[1-9@*]|[A-Za-z_]\w*\[[@*]\])")
_SETS = re.compile(
    r"(?<!\w)(?:(?![A-Za-z_])\w)*+([A-Za-z_]\w*+)\s*+(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*+([A-Za-z_]\w*+)"
)
_NUMBER = re.compile(r"[+-]?\d+")
# `${n}`, `${n:-0}`: as much of a number as n is
_SAME = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?::?[-=+]\d+)?\}?\"?")
_COUNTS = re.compile(r"\"?\$(?:\{#[\w@*\[\]]+\}|[#?!$])\"?")
_SLICE = re.compile(r"\$\{\w+(?:\[[@*]\])?:(?![-=+?])([^}]*)\}")
# From the end of one run, or the beginning: else each bracket would be tried to the end.
_INDEXED = re.compile(r"(?:^|[]@*])[^][@*]*+\[([^]@*]++)\]")
_LENGTH = re.compile(r"\$\{#[^}]*+\}")
_BRACED = re.compile(r"\$\{(\w++)[^}]*+\}")
_EXPANDED_MARK = "\0"
# Two operands with nothing between them; a path that begins where a value may be empty.
_NO_CALCULATION = re.compile(r"[\w\0]\s+[\w\0]|\0\w|\0/\s*[A-Za-z_]|\0/\d*/")


def regions(root: Node) -> Iterator[str]:
    """The source of all that is evaluated as arithmetic."""
    for node, _ in walk(root):
        if is_arithmetic(node):
            if node.type == "c_style_for_statement":
                yield source_of(node).partition("((")[2].partition("))")[0]
            else:
                yield source_of(node)
        elif node.type == "subscript":
            index = source_of(node).partition("[")[2][:-1]
            yield "" if index in ("@", "*") else index
        elif node.type == "expansion":
            if found := _SLICE.fullmatch(source_of(node)):
                yield found[1]
            if (index := _INDEXED.search(source_of(node))) is not None:
                yield index[1]
        elif node.type == "binary_expression" and _compares_numbers(node):
            yield " ".join(source_of(child) for child in (node.children[0], node.children[-1]))


def _compares_numbers(node: Node) -> bool:
    """Only double brackets calculate."""
    if not any(source_of(child) in COMPARED for child in node.children):
        return False
    above = node.parent
    while above is not None and above.type != "test_command":
        above = above.parent
    return above is not None and source_of(above.children[0]) == "[["


def set_in_arithmetic(root: Node) -> Iterator[str]:
    for text in regions(root):
        for found in _SETS.finditer(text):
            yield found[1] or found[2]


def posix_reading(node: Node) -> str:
    """`((x > 3))` as a shell without it reads that, which runs a command `x` in two subshells.

    What is expanded stands there as a number, which `check_arithmetic` has seen to. `Unparsable` where an empty one
    would run something else, and for what is no calculation.
    """
    marked = source_of(node)[2:-2]
    for child in node.children:
        for expanded in expanded_in(child):
            marked = marked.replace(source_of(expanded), _EXPANDED_MARK, 1)
    if _NO_CALCULATION.search(marked):
        raise Unparsable("what stands between (( and )) is a command for some shells")
    # the grammar takes `a == b` for a test; `!a`, `++a` and `--a` are names that no program has
    plainer = re.sub(r"!(?=\w)", "! ", re.sub(r"(?:\+\+|--)\w+", "0", marked.replace("==", "=")))
    return plainer.replace(_EXPANDED_MARK, "0")


def check_arithmetic(root: Node, commands: Iterable[SimpleCommand], held: frozenset[str]) -> None:
    """`Unparsable` where something that may be no number is evaluated. `held`: such variables of what is around."""
    texts = list(regions(root))
    if not texts:
        return
    doubtful = held | doubtful_names(root, commands)
    functions = {source_of(node.children[0]) for node, _ in walk(root) if node.type == "function_definition"}
    substitutions = [
        node
        for region, _ in walk(root)
        if is_arithmetic(region)
        for node, _ in walk(region)
        if node.type == "command_substitution"
    ]
    if any(not _gives_number(node) for node in substitutions) or (substitutions and functions):
        raise Unparsable("what is calculated with comes from a command, and may be no number")
    for text in texts:
        plain = _without_substitutions(text)
        if _POSITIONAL.search(plain) or doubtful & {found[1] for found in _NAME.finditer(_bare(plain))}:
            raise Unparsable("what is calculated with may be no number")


def _bare(text: str) -> str:
    """The text with plain names for what is between braces; a length is a number."""
    return _BRACED.sub(r" \1 ", _LENGTH.sub(" 0 ", text)).replace('"', " ")


def _without_substitutions(text: str) -> str:
    while (start := re.search(r"\$\((?!\()", text)) is not None:
        depth, at = 1, start.end()
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        text = text[: start.start()] + "0" + text[at:]
    return text


def doubtful_names(root: Node, commands: Iterable[SimpleCommand]) -> frozenset[str]:
    """The variables that may come to hold something that is no number."""
    doubtful = {name for command in commands for name in set_by_command(command) if command.name != "unset"}
    copies: list[tuple[str, str]] = []
    for node, _ in walk(root):
        match node.type:
            case "variable_assignment":
                name = re.split(r"\[", source_of(node.children[0]), maxsplit=1)[0]
                values = node.children[2:] if len(node.children) > 2 else []
                values = values[0].named_children if values and values[0].type == "array" else values
            case "for_statement":
                names = [child for child in node.children if child.type == "variable_name"]
                name, values = source_of(names[0]) if names else "", _words_of_loop(node)
            case "expansion" if found := re.match(r"\$\{(\w+)(?:\[[^\]]*\])?:?=(.*)\}", source_of(node), re.DOTALL):
                if not _NUMBER.fullmatch(found[2]):
                    doubtful.add(found[1])
                continue
            case _:
                continue
        for value in values:
            if same := _SAME.fullmatch(source_of(value)):
                copies.append((name, same[1]))
            elif not _is_number(value):
                doubtful.add(name)
    changed = True
    while changed:
        more = {name for name, of in copies if of in doubtful} - doubtful
        doubtful |= more
        changed = bool(more)
    return frozenset(doubtful)


def _words_of_loop(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type not in ("variable_name", "do_group", "comment")]


def _is_number(node: Node) -> bool:
    text = source_of(node)
    if node.type in ("arithmetic_expansion", "brace_expression") or _COUNTS.fullmatch(text):
        return not re.search(r"[a-zA-Z]", text) if node.type == "brace_expression" else True
    if node.type == "command_substitution":
        return _gives_number(node)
    if node.type == "string":
        inner = [child for child in node.children if child.type != '"']
        return all(
            _is_number(child) or (child.type == "string_content" and source_of(child).isdigit()) for child in inner
        )
    value = value_of(node)
    return value is not None and _NUMBER.fullmatch(value) is not None


def _gives_number(node: Node) -> bool:
    """Does the last command in `$(…)` print numbers, whatever it is given?"""
    inner = node.named_children
    if len(inner) != 1:
        return False
    last = inner[0]
    while last.type in ("pipeline", "redirected_statement"):
        last = last.named_children[-1] if last.type == "pipeline" else last.named_children[0]
    if last.type != "command":
        return False
    words = last.named_children
    values = [value_of(child.children[0] if child.type == "command_name" else child) for child in words]
    if None in values or any(child.type == "variable_assignment" for child in words):
        return False
    return any(looks.fullmatch(" ".join(value or "" for value in values)) for looks in _NUMERIC)


_NUMERIC = (
    re.compile(r"date (?:-u )?\+(?:%[sNYmdHMSjuw])+|nproc|seq(?: -?\d+){1,3}"),
    re.compile(r"wc(?: -[lcwm])+|stat (?:-c ?|--format=)%[sYXZ] \S+|grep -(?=[iEFwvx]*+c)[ciEFwvx]++ \S+(?: \S+)?"),
)
