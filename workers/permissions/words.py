"""A command's words: as written, and as its program gets them where the text alone tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .syntax import Node, Unparsable, source_of

# `$X`, `r?`, `{a,b}` and `~x` stand for other names; quotes and escapes in a name are a disguise nobody honest needs.
_PLAIN_NAME = re.compile(r"(?!-)[\w./+:@%,^=-]+|~/[\w./+:@%,^=-]+")
# Within double quotes, a backslash keeps its place before anything else.
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`])")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Word:
    """`value` is None when it depends on what runs; a wildcard in it stands as it is. `at`: where in the command."""

    text: str
    value: str | None
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command as it is written, redirections and what is assigned before it included.

    `words` begin with the name, and hold neither assignments nor redirections.
    """

    text: str
    words: tuple[Word, ...]
    redirected: bool = False

    @property
    def name(self) -> str:
        return self.words[0].text if self.words else ""

    def part(self, first: int, last: int | None = None) -> SimpleCommand:
        """The command that these of its words are; to the end of the text without a `last`."""
        start, end = self.words[first].at, len(self.text) if last is None else self.words[last - 1].end
        moved = tuple(replace(word, at=word.at - start) for word in self.words[first:last])
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
