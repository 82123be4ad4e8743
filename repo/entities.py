"""Changes of one source file, united by what it defines: each function, class or import comes from one side.

Pure, on bytes. Only for what can be told apart without doubt; everything else is None, and stays a conflict. Hostile
source takes half a minute or all the memory: `merge_entities.py` runs this file in a process of its own with bounds.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Language, Parser

from . import entities_apart, entities_braces, entities_python
from .bounds import bound_this_process
from .entities_merged import joined, merged, shape
from .entity import Entity, Unclear
from .syntaxes import CONTRADICTION, MAX_SOURCE_BYTES, SYNTAXES

# Ten times what the largest honest source needs.
MAX_CPU_S = 10
NO_ANSWER = 3  # exit code: cannot be united
_WORDS = re.compile(rb"\w")


def unite(base: bytes, *sides: bytes, language: str = "Python") -> bytes | None:
    """What all sides made of `base`, or None when they changed the same thing, or it is not clear what is the same.
    The order of the sides does not matter.

    >>> print(unite(b"import a\\n", b"import a\\nimport b\\n", b"import a\\nimport c\\n").decode(), end="")
    import a
    import b
    import c
    """
    try:
        united = merged(*(_read(side, language) for side in (base, *sides)))
        told = joined(united)
        is_whole = shape(_read(told, language)) == shape(united)
        marks = SYNTAXES[language].comments
        return told if is_whole and not _repeats_comments(told, *sides, marks=marks) else None
    except Unclear:
        return None


def contradict(base: bytes, ours: bytes, theirs: bytes, language: str) -> bool:
    """Whether two versions that git merges by lines cannot both stand, by the names that they define and use. What is
    not clear is no reason to doubt git.

    >>> contradict(b"", b"def a():\n    pass\n", b"a = 1\n", "Python")
    True
    """
    try:
        return entities_apart.contradict(*(_read(side, language) for side in (base, ours, theirs)))
    except Unclear:
        return False


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
        return entities_braces.entities(root, lines, 0, len(lines), syntax)
    return entities_python.entities(root, lines, 0, len(lines))


def _repeats_comments(told: bytes, *sides: bytes, marks: tuple[bytes, ...]) -> bool:
    """A comment belongs to what is below it: where both put something below one, it would stand twice."""
    now, *before = (
        Counter(line for line in map(bytes.strip, text.splitlines()) if line.startswith(marks) and _WORDS.search(line))
        for text in (told, *sides)
    )
    return any(count > max(side[line] for side in before) for line, count in now.items())


def _versions(told: bytes) -> Iterator[bytes]:
    """As often as there are: a line with a length, and so many bytes."""
    while told:
        length, _, told = told.partition(b"\n")
        yield told[: int(length)]
        told = told[int(length) :]


def main() -> int:
    """The process that reads files which nobody trusts: the base and what became of it on stdin, one version on stdout,
    and what it may take is bounded; `NO_ANSWER` where they cannot be united."""
    bound_this_process(MAX_CPU_S)
    language, *rest = sys.argv[1:] or ["Python"]
    versions = list(_versions(sys.stdin.buffer.read()))
    if rest == ["compare"]:
        sys.stdout.buffer.write(CONTRADICTION if contradict(*versions, language=language) else b"")
        return 0
    united = unite(*versions, language=language)
    if united is None:
        return NO_ANSWER
    sys.stdout.buffer.write(united)
    return 0


if __name__ == "__main__":
    sys.exit(main())
