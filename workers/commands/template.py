"""A command's template: arguments in their places, shell output inlined, files and agents mentioned. Pure.

`$1`, `$2` … are words of the arguments, the highest takes all that is left, `$ARGUMENTS` is their text as it was
typed. Without any of these the arguments are added at the end. What is put in is never looked at again: an argument
that holds `$1` or !`cmd` stays what it is.

Amounts of money stay what they are: `$100`, `$1,000`, `$1.50`, `$2M`, and `$25` where there are no 25 words. Before any
other place a backslash says the same, as in Claude Code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

_PLACEHOLDER = re.compile(r"(\\?)\$(?:ARGUMENTS|([1-9][0-9]?)(?![0-9]|[.,][0-9]{2}|(?:[.,][0-9]+)?[kKMB]\b))")
# A template of nothing but places would make gigabytes of long arguments; no prompt may have as much.
MAX_FILLED_CHARS = 400_000
ALWAYS_PLACES = 9  # a higher number is one where there are as many words
# Quotes group; one without a partner is a character like others.
_WORD = re.compile(r""""[^"]*"|'[^']*'|(?:[^\s"']|"(?![^"]*")|'(?![^']*'))+""")
_SHELL = re.compile(r"!`([^`]+)`")
# No mail address, and nothing quoted as code. A name with blanks stands in quotes, as in Claude Code.
_MENTION = re.compile(r"""(?<![\w`])@(?:"([^"\n]+)"(#L?[0-9]+(?:-L?[0-9]+)?)?|([^\s`,"][^\s`,]*))""")
_LINES = re.compile(r"(?s)(.+)#L?([1-9][0-9]{0,8})(?:-L?([1-9][0-9]{0,8}))?")
_CLOSED = {")": "(", "]": "[", "}": "{", ">": "<"}


@dataclass(frozen=True, slots=True)
class Mentions:
    files: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


def expand(template: str, arguments: str) -> str:
    """The prompt that a command makes of what was typed after its name. Its !`cmd` marks are still in it.

    >>> expand("Compare $1 with $2", "'a b' c d")
    'Compare a b with c d'
    """
    return inlined(template, arguments, [f"!`{command}`" for command in shell_commands(template, arguments)])


def words(arguments: str) -> list[str]:
    """The arguments one by one.

    >>> words("fix 'the parser' \\"now\\"")
    ['fix', 'the parser', 'now']
    """
    return [_unquoted(word) for word in _WORD.findall(arguments)]


def shell_commands(template: str, arguments: str = "") -> list[str]:
    """The commands of the template's !`cmd` marks in their order, arguments put in.

    Marks are the template's alone: nobody who fills a place makes a command. Inside one, though, an argument is part
    of a shell's line and may be anything: run it where the agent's own commands run, by the same rules.
    """
    fill = _Filling.of(template, arguments)
    return [fill.into(command) for command in _SHELL.findall(template)]


def inlined(template: str, arguments: str, outputs: Sequence[str]) -> str:
    """The prompt with an output in the place of each !`cmd` mark, in the order of `shell_commands`."""
    fill = _Filling.of(template, arguments)
    texts = [fill.into(text) for text in _SHELL.split(template)[::2]]
    filled = "".join(text + output for text, output in zip_longest(texts, outputs, fillvalue=""))
    return filled if fill.has_places or not arguments.strip() else f"{filled}\n\n{arguments}"


def mentions(text: str) -> list[str]:
    """The names after an @, each once, without the punctuation of the sentence around them.

    To be looked for before outputs are put in: what a command prints mentions nobody.

    >>> mentions("Ask @explore about @src/a.py, @./b (and @c.d). Not me@example.com")
    ['explore', 'src/a.py', './b', 'c.d']
    """
    names = (f"{quoted.strip()}{lines}" if quoted else _bare(name) for quoted, lines, name in _MENTION.findall(text))
    return [*dict.fromkeys(name for name in names if name)]


def lines_of(name: str) -> tuple[str, int, int] | None:
    """The file and the lines that a mention names; None when it names no lines.

    >>> lines_of("src/a.py#L10-20"), lines_of("src/a.py#L7")
    (('src/a.py', 10, 20), ('src/a.py', 7, 7))
    """
    found = _LINES.fullmatch(name)
    if found is None:
        return None
    first, last = sorted((int(found[2]), int(found[3] or found[2])))
    return found[1], first, last


def told_apart(names: Iterable[str], *, is_file: Callable[[str], bool], agents: Collection[str]) -> Mentions:
    """Which names are files and which are agents; a file comes first, and what is neither is only a word."""
    known = [*names]
    files = tuple(name for name in known if is_file(name))
    return Mentions(files, tuple(name for name in known if name in agents and name not in files))


@dataclass(frozen=True, slots=True)
class _Filling:
    arguments: str
    words: list[str]
    last: int  # the highest place of the whole template, which takes the rest
    has_places: bool
    filled_chars: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def of(cls, template: str, arguments: str) -> _Filling:
        typed = words(arguments)
        found = [each for each in _PLACEHOLDER.finditer(template) if _is_place(each, len(typed))]
        places = (int(each[2]) for each in found if each[2])
        return cls(arguments, typed, max(places, default=0), bool(found))

    def into(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        value = self._meant(found) if self.filled_chars[0] < MAX_FILLED_CHARS else ""
        self.filled_chars[0] += len(value)
        return value

    def _meant(self, found: re.Match[str]) -> str:
        if not _is_place(found, len(self.words)):
            return found[0].removeprefix("\\")
        if found[2] is None:
            return self.arguments
        place = int(found[2])
        return " ".join(self.words[place - 1 :] if place == self.last else self.words[place - 1 : place])


def _is_place(found: re.Match[str], words: int) -> bool:
    return not found[1] and (found[2] is None or int(found[2]) <= max(ALWAYS_PLACES, words))


def _unquoted(word: str) -> str:
    quoted = len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]
    return word[1:-1] if quoted else word


def _bare(name: str) -> str:
    """Without what belongs to the sentence: up to a bracket that is closed and was not opened, `](` of a link too."""
    opened: list[str] = []
    for at, letter in enumerate(name):
        if letter in _CLOSED.values():
            opened.append(letter)
        elif letter in _CLOSED and (not opened or opened.pop() != _CLOSED[letter]):
            name = name[:at]
            break
    return name.rstrip(".;:!?\"'*…")
