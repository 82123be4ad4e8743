"""A command's template: arguments in their places, shell output inlined, files and agents mentioned. Pure.

`$1`, `$2` … are words of the arguments, the highest takes all that is left, `$ARGUMENTS` is their text as it was
typed. Without any of these the arguments are added at the end. What is put in is never looked at again: an argument
that holds `$1` or !`cmd` stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS|([1-9][0-9]{0,5})(?![0-9]))")
# Quotes group; one without a partner is a character like others.
_WORD = re.compile(r""""[^"]*"|'[^']*'|(?:[^\s"']|"(?![^"]*")|'(?![^']*'))+""")
_SHELL = re.compile(r"!`([^`]+)`")
# No mail address, and nothing quoted as code.
_MENTION = re.compile(r"(?<![\w`])@([^\s`,]+)")


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
    return f"{filled}\n\n{arguments}" if arguments.strip() and not _PLACEHOLDER.search(template) else filled


def mentions(text: str) -> list[str]:
    """The names after an @, each once, without the punctuation of the sentence around them.

    To be looked for before outputs are put in: what a command prints mentions nobody.

    >>> mentions("Ask @explore about @src/a.py, @./b (and @c.d). Not me@example.com")
    ['explore', 'src/a.py', './b', 'c.d']
    """
    names = (_bare(name) for name in _MENTION.findall(text))
    return [*dict.fromkeys(name for name in names if name)]


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

    @classmethod
    def of(cls, template: str, arguments: str) -> _Filling:
        places = (int(number) for number in _PLACEHOLDER.findall(template) if number)
        return cls(arguments, words(arguments), max(places, default=0))

    def into(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return self.arguments
        place = int(found[1])
        return " ".join(self.words[place - 1 :] if place == self.last else self.words[place - 1 : place])


def _unquoted(word: str) -> str:
    quoted = len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]
    return word[1:-1] if quoted else word


def _bare(name: str) -> str:
    return name.rstrip(".;:!?\"'" + ("" if "(" in name else ")"))
