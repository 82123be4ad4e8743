"""A command's words: as written, and as its program gets them where the text alone tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

from .prefixes import prefix_words
from .syntax import Node, Unparsable, source_of

# `$X`, `r?`, `{a,b}` and `~x` stand for other names; quotes and escapes in a name are a disguise nobody honest needs.
_PLAIN_NAME = re.compile(r"(?!-)[\w./+:@%,^=-]+|~/[\w./+:@%,^=-]+")
# Within double quotes, a backslash keeps its place before anything else.
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


# They change nothing but where the next command runs, and every command that follows is judged by itself.
MOVES = frozenset({"cd", "pushd", "popd"})


class Word(str):
    """A word as it is written, quotes and all.

    `value` is what its program gets, None when that depends on what runs; a wildcard in it stands as it is. `at`:
    where in the command.
    """

    __slots__ = ("at", "value")
    value: str | None
    at: int

    def __new__(cls, text: str, value: str | None, at: int) -> Self:
        self = super().__new__(cls, text)
        self.value, self.at = value, at
        return self

    @property
    def end(self) -> int:
        return self.at + len(self)

    def moved(self, back: int) -> Word:
        return Word(str(self), self.value, self.at - back)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command as it is written: `text`, redirections and what is assigned before it included.

    `words` begin with the name, and hold neither assignments nor redirections. `folders`: where it may run, and
    `leads`: where it may lead the shell, if it moves it; None stands for anywhere (see `working_directory`).
    """

    text: str
    words: tuple[Word, ...]
    redirected: bool = False
    folders: frozenset[str | None] = field(default=frozenset(), compare=False, repr=False)
    leads: frozenset[str | None] = field(default=frozenset(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return str(self.words[0]) if self.words else ""

    @property
    def pattern(self) -> str:
        """What a rule on `bash` is matched against."""
        return self.text

    @property
    def always(self) -> str:
        """The pattern that "always" adds for this command. It matches the command itself.

        It begins where the command's text does: what is assigned before the name belongs to what was approved. A
        wildcard in its words may stand for one sign only, and what does not end in a blank is kept whole, so that no
        more is allowed than was seen.
        """
        words = self.words[: prefix_words(self.words)]
        end = words[-1].end if words else len(self.text)
        whole = not words or self.text[end : end + 1] not in ("", " ")
        return self.text.replace("*", "?") if whole else f"{self.text[:end].replace('*', '?')} *"

    @property
    def only_moves(self) -> bool:
        return self.name in MOVES and not self.redirected

    def part(self, first: int, last: int | None = None) -> SimpleCommand:
        """The command that these of its words are; to the end of the text without a `last`."""
        start, end = self.words[first].at, len(self.text) if last is None else self.words[last - 1].end
        moved = tuple(word.moved(start) for word in self.words[first:last])
        return SimpleCommand(self.text[start:end], moved, self.redirected)


def check_name(command: SimpleCommand) -> None:
    """`Unparsable` when it is not plain which program the command runs."""
    if not _PLAIN_NAME.fullmatch(command.name):
        raise Unparsable(f"it is not plain which program this runs: {command.text[:40]!r}")


def value_of(node: Node) -> str | None:
    """What a program gets for this word, but for wildcards; None when only running it tells."""
    text = source_of(node)
    match node.type:
        case "word":
            return _ESCAPED.sub(r"\1", text)
        case "raw_string":
            return text[1:-1]
        case "string" if all(child.type in ('"', "string_content") for child in node.children):
            return _ESCAPED_IN_QUOTES.sub(r"\1", text[1:-1].replace("\\\n", ""))
        case "concatenation":
            values = [value_of(child) for child in node.children]
            return None if None in values else "".join(value or "" for value in values)
        case "number":
            return text
        case _:
            return None
