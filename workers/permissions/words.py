"""A command's words: as written, and as its program gets them where the text alone tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

from .arguments import UNTOLD, carries_code, operands_at
from .prefixes import prefix_words
from .syntax import Node, Unparsable, source_of

# `$X`, `r?`, `{a,b}` and `~x` stand for other names; quotes and escapes in a name are a disguise nobody honest needs.
_PLAIN_NAME = re.compile(r"(?!-)[\w./+:@%,^=-]+|~/[\w./+:@%,^=-]+")
# Within double quotes, a backslash keeps its place before anything else.
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`])")
_OPENS_LIST = re.compile(r"\{(?:(?!,|\.\.)[^{}])*+(?:,|\.\.)")
# In quotes it is the same as without them.
_PLAIN_VALUE = re.compile(r"[\w@%+=:,./-]+")
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

    `words` begin with the name, and hold neither assignments nor redirections. `assigned`: to which names something is
    assigned before it. `folders`: where it may run, and
    `leads`: where it may lead the shell, if it moves it; None stands for anywhere (see `working_directory`).
    """

    text: str
    words: tuple[Word, ...]
    redirected: bool = False
    assigned: tuple[str, ...] = ()
    folders: frozenset[str | None] = field(default=frozenset(), compare=False, repr=False)
    leads: frozenset[str | None] = field(default=frozenset(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return str(self.words[0]) if self.words else ""

    @property
    def pattern(self) -> str:
        """What a rule on `bash` is matched against: the text as it would be written plainly.

        That is with one blank between words, without quotes that change nothing, and without the options that stand
        between a program and its command: `git push` for `git  -C x 'push'`.
        """
        if not self.words:
            return self.text
        name, *rest = self.words
        spelled, end = [self.text[: name.end]], name.end
        for word in rest[self._operands_at - 1 :]:
            gap = self.text[end : word.at] if len(spelled) > 1 else ""
            is_plain = word.value is not None and _PLAIN_VALUE.fullmatch(word.value)
            spelled += [gap if gap.strip(" \t\n\\") else " ", (word.value or "") if is_plain else str(word)]
            end = word.end
        return "".join(spelled) + self.text[max(end, self.words[-1].end) :]

    @property
    def carries_code(self) -> bool:
        """Do its arguments hold code, or say which other program is run?"""
        return carries_code(self.values)

    @property
    def always(self) -> str:
        """The pattern that "always" adds for this command. It matches the command itself.

        It begins where the command's text does: what is assigned before the name belongs to what was approved. A
        wildcard in its words may stand for one sign only, and what does not end in a blank is kept whole, so that no
        more is allowed than was seen. So is code.
        """
        spelled = self.pattern
        if not self.words or self.carries_code:
            return spelled.replace("*", "?")
        rest = self.words[self._operands_at :]
        plain = [word.value if word.value and _PLAIN_VALUE.fullmatch(word.value) else str(word) for word in rest]
        length = prefix_words([self.name, *plain]) - 1
        start = " ".join([self.text[: self.words[0].end], *plain[:length]])
        whole = not spelled.startswith(start) or spelled[len(start) : len(start) + 1] not in ("", " ")
        return spelled.replace("*", "?") if whole else f"{start.replace('*', '?')} *"

    @property
    def values(self) -> list[str | None]:
        """The words as `arguments` takes them; one that may come to be options is not told."""
        return [self.name, *map(_told, self.words[1:])]

    @property
    def _operands_at(self) -> int:
        try:
            return operands_at(self.values)
        except Unparsable:
            return 1

    @property
    def only_moves(self) -> bool:
        return self.name in MOVES and not self.redirected

    def part(self, first: int, last: int | None = None) -> SimpleCommand:
        """The command that these of its words are; to the end of the text without a `last`."""
        start, end = self.words[first].at, len(self.text) if last is None else self.words[last - 1].end
        moved = tuple(word.moved(start) for word in self.words[first:last])
        return SimpleCommand(self.text[start:end], moved, self.redirected)


def _told(word: Word) -> str | None:
    if word.value is None and re.fullmatch(r'"[^"@*]*"', word):
        return UNTOLD
    return None if _may_be_options(word) else word.value


def _may_be_options(word: str) -> bool:
    """May it come to be options: is it names that a wildcard finds, or words in braces?"""
    unquoted = re.split(r"['\"]", word, maxsplit=1)[0]
    return word[:1] in ("*", "?", "[") or _OPENS_LIST.search(unquoted, 0, max(0, unquoted.rfind("}"))) is not None


def check_name(command: SimpleCommand) -> None:
    """`Unparsable` when it is not plain which program the command runs."""
    if not _PLAIN_NAME.fullmatch(command.name):
        raise Unparsable(f"it is not plain which program this runs: {command.text[:40]!r}")
    operands_at(command.values)


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
        case "number" | "brace_expression":
            return text
        case _:
            return None
