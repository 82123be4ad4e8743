"""A shell command line as the simple commands that it runs. Pure, and conservative: what is not plain is not guessed.

Understood: words, quotes, escapes, plain variables, redirections, comments, and lists joined by `;`, `&&`, `||`, `|`,
`&` and newlines. Everything else (substitutions, subshells, here-documents, loops, functions) raises `Unparsable`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A command that runs another text as a command: what it would run is not what is written.
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "select"}
    | {"coproc", "time", "eval", "!", "[["}
)

_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r]+ )
    | (?P<comment> (?<![^\s;&|]) \# [^\n]* )
    | (?P<redirect> \d* (?: &>>? | >> | >[|&] | <& | > | < (?!<) ) (?!\() )
    | (?P<join> && | \|\| | \|& | [;&|\n] )
    | (?P<piece>
          [^\s'"\\`$;&|<>()\#]+ | \# | \\.
        | ' [^']* '
        | " (?: [^"\\`$] | \\. | \$ (?![({]) | \$\{\w+\} )* "
        | \$ (?: \w+ | \{\w+\} | [@*\#?$!-] | (?= [\s/.:,] | $ ) )
      )
    """,
    re.VERBOSE | re.DOTALL,
)


class Unparsable(ValueError):
    """The text is more than a list of simple commands."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command as it is written, redirections included; `name` is its first word."""

    text: str
    name: str


def commands(text: str) -> list[SimpleCommand]:
    """The simple commands of a command line, in order; `Unparsable` when it is anything more.

    >>> [command.text for command in commands("cd src && ls -l | wc > n.txt")]
    ['cd src', 'ls -l', 'wc > n.txt']
    """
    found: list[SimpleCommand] = []
    start = at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise Unparsable(f"not a plain command at: {text[at : at + 40]!r}")
        if token["join"] or token["comment"]:
            _add(found, text[start:at])
            start = token.end()
        at = token.end()
    _add(found, text[start:])
    if not found:
        raise Unparsable("there is no command")
    return found


def _add(found: list[SimpleCommand], text: str) -> None:
    text = text.strip()
    if not text:
        return
    name = text.split(maxsplit=1)[0]
    # `$X` and `{a,b}` stand for other words; a quoted or escaped name is a disguise that no honest command needs.
    if name in _KEYWORDS or name[0] in "${}'\"\\":
        raise Unparsable(f"not a plain command: {text[:40]!r}")
    found.append(SimpleCommand(text, name))
