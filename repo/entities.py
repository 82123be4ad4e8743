"""Changes of one source file, united by what it defines: each function, class or import comes from one side.

Pure, on bytes. Only for what can be told apart without doubt; everything else is None, and stays a conflict. Hostile
source takes half a minute or all the memory: `merge_entities.py` runs this file in a process of its own with bounds.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from tree_sitter import Language, Node, Parser

from . import entities_apart, entities_braces, entities_clash, entities_python, entities_reach
from .bounds import answer_questions
from .entities_merged import joined, merged, shape
from .entity import Entity, Unclear
from .merge_words import reaches
from .syntaxes import CONTRADICTION, MAX_SOURCE_BYTES, SUFFIXES, SYNTAXES

MAX_KEPT = 250  # versions that have been read: those of a file that all patches change are asked about again and again
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
        if not is_whole or _repeats_comments(told, *sides, marks=marks):
            return None
        base_root, *roots, merged_root = (_parsed(text, language) for text in (base, *sides, told))
        return None if entities_clash.clash(base_root, *roots, merged=merged_root) else told
    except Unclear:
        return None


def contradict(base: bytes, ours: bytes, theirs: bytes, merged: bytes, language: str) -> bool:
    """Whether two versions that git merges by lines, to `merged`, cannot both stand, by the names that they define and
    use. What is not clear is no reason to doubt git.

    >>> contradict(b"", b"def a():\n    pass\n", b"a = 1\n", b"def a():\n    pass\na = 1\n", "Python")
    True
    """
    roots = [_parsed(text, language) for text in (base, ours, theirs, merged)]
    if any(root.has_error for root in roots[:3]):
        return False
    if entities_clash.clash(*roots[:3], merged=roots[3]):
        return True
    try:
        return entities_apart.contradict(*(_read(side, language) for side in (base, ours, theirs)))
    except Unclear:
        return False


def across(base: bytes, ours: bytes, before: bytes, after: bytes, *, language: str, path: str, file: str) -> bool:
    """Whether one file begins to use (`before`, `after`) what another one no longer has (`base`, `ours`)."""
    of_file = SUFFIXES.get(posixpath.splitext(file)[1], language)
    old, new = _parsed(base, language), _parsed(ours, language)
    earlier, later = _parsed(before, of_file), _parsed(after, of_file)
    if any(root.has_error for root in (old, new, earlier, later)) or not reaches(after, path, file):
        return False
    was: list[Entity] = []
    now: list[Entity] = []
    with suppress(Unclear):
        was, now = _read(base, language), _read(ours, language)
    return entities_reach.is_let_down(old, new, earlier, later, was, now, path, file)


@lru_cache(MAX_KEPT)
def _parsed(source: bytes, language: str) -> Node:
    return Parser(Language(SYNTAXES[language].load())).parse(source).root_node


@lru_cache(MAX_KEPT)
def _read(source: bytes, language: str) -> list[Entity]:
    if len(source) > MAX_SOURCE_BYTES or (source and not source.endswith(b"\n")):
        raise Unclear
    syntax = SYNTAXES[language]
    root = _parsed(source, language)
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


def _answer(words: Sequence[str], versions: Sequence[bytes]) -> bytes | None:
    """Of a process that reads files which nobody trusts: the base, and what became of it."""
    language, *rest = words
    if rest[:1] == ["across"]:
        found = across(*versions, language=language, path=rest[1], file=rest[2])
        return CONTRADICTION if found else b""
    if rest == ["compare"]:
        return CONTRADICTION if contradict(*versions, language=language) else b""
    return unite(*versions, language=language)


if __name__ == "__main__":
    for each in SYNTAXES.values():
        each.load()
    answer_questions(_answer)
