"""A change as git writes it, side by side. Pure; the change is an agent's, so that every part of it is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_ROWS = 2_000  # of all files together: what is more is read in an editor
MAX_LINE_CHARS = 500
MAX_FILES = 500
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)
_ESCAPE = re.compile(r'\\([0-7]{3}|[abfnrtv"\\])')
_NOTES = ("old mode", "new mode", "deleted", "new file", "rename", "similarity", "Binary", "GIT binary")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Side:
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A line before and after; None where there is none. Of a hunk's heading `gap` has the words."""

    old: Side | None = None
    new: Side | None = None
    gap: str | None = None

    @property
    def is_changed(self) -> bool:
        return self.gap is None and (self.old is None or self.new is None or self.old.text != self.new.text)


@dataclass(slots=True)
class FileDiff:
    """`notes`: what git says beside the lines: modes, renames, a binary file. `cut`: some of its lines are left out."""

    path: str
    notes: list[str] = field(default_factory=list[str])
    pairs: list[Pair] = field(default_factory=list[Pair])
    added: int = 0
    removed: int = 0
    cut: bool = False


def side_by_side(diff: bytes, *, max_rows: int = MAX_ROWS) -> tuple[list[FileDiff], int]:
    """The files of a change, and how many more there are. Only so many rows of them in all."""
    files: list[FileDiff] = []
    more = 0
    for lines in _sections(diff.decode(errors="replace").split("\n")):
        if len(files) == MAX_FILES:
            more += 1
            continue
        one = _file(lines, max_rows)
        max_rows -= len(one.pairs)
        files.append(one)
    return files, more


def _sections(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Of each file its lines. Those of its text begin with a blank, + or -: none is mistaken for a heading."""
    starts = [index for index, line in enumerate(lines) if line.startswith("diff --git ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start:end]


def _file(lines: Sequence[str], max_rows: int) -> FileDiff:
    one = FileDiff(_name(lines))
    body = next((index for index, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    one.notes = [line[:MAX_LINE_CHARS] for line in lines[1:body] if _is_note(line)]
    olds: list[Side] = []
    news: list[Side] = []
    old = new = 0
    for line in lines[body:]:
        mark, text = line[:1], line[1 : MAX_LINE_CHARS + 1]
        one.added += mark == "+"
        one.removed += mark == "-"
        if len(one.pairs) + max(len(olds), len(news)) >= max_rows:
            one.cut = True
            continue
        if mark == "-":
            olds.append(Side(old, text))
            old += 1
        elif mark == "+":
            news.append(Side(new, text))
            new += 1
        else:
            one.pairs += _paired(olds, news)
            olds, news = [], []
            if found := _HUNK.fullmatch(line):
                old, new = int(found[1]), int(found[3])
                one.pairs.append(Pair(gap=found[5].strip()[:MAX_LINE_CHARS]))
            elif mark == " ":
                one.pairs.append(Pair(Side(old, text), Side(new, text)))
                old, new = old + 1, new + 1
    one.pairs += _paired(olds, news)
    return one


def _paired(olds: Sequence[Side], news: Sequence[Side]) -> Iterator[Pair]:
    for index in range(max(len(olds), len(news))):
        yield Pair(
            olds[index] if index < len(olds) else None,
            news[index] if index < len(news) else None,
        )


def _is_note(line: str) -> bool:
    return line.startswith(
        ("old mode", "new mode", "deleted", "new file", "rename", "similarity", "Binary", "GIT binary")
    )


def _name(lines: Sequence[str]) -> str:
    """The name after the change, of a deleted file the one before it."""
    for mark in ("rename to ", "+++ ", "--- "):
        for line in lines[:12]:
            if line.startswith(mark) and not line.endswith("/dev/null"):
                name = unquoted(line.removeprefix(mark).rstrip("\t"))
                return name if mark == "rename to " else name[2:]
    # a binary file, or only its mode: `a/NAME b/NAME`, both the same
    both = lines[0].removeprefix("diff --git ")
    return unquoted(both[: len(both) // 2])[2:]


def unquoted(name: str) -> str:
    r"""
    >>> unquoted('"a/na\\303\\257ve\\n"') == "a/na\u00efve\n"
    True
    """
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    made = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1]) or chr(int(found[1], 8)), name[1:-1])
    return made.encode("latin-1", "replace").decode(errors="replace")
