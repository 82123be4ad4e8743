"""Where words go: people's text to stderr, data to stdout. Colours and width are rich's business (`NO_COLOR`, …).

It is imported with the first words: a command whose work should begin at once says none before.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from ..words import plain

if TYPE_CHECKING:
    from rich.console import Console

TAB_COLUMNS = 4  # code in an answer keeps its shape


@cache
def people() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """One plain line for people."""
    from rich.text import Text

    people().print(Text(plain(text)), style="dim", soft_wrap=True)


def early(text: str, *, end: str = "\n") -> None:
    """As `note`, before the work has begun: rich's import would keep it waiting for longer than all else."""
    sys.stderr.write(f"{plain(text)}{end}")
    sys.stderr.flush()


def warn(text: str, hint: str = "") -> None:
    from rich.markup import escape

    people().print(f"[yellow]warning:[/] {escape(plain(text))}", soft_wrap=True)
    if hint:
        people().print(f"hint: {escape(plain(hint))}", soft_wrap=True)


def data(text: str) -> None:
    """One line for programs."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def answer(text: str) -> None:
    """What a model says, line by line: data all the same, but nobody's terminal takes orders from it."""
    data("\n".join(plain(line.expandtabs(TAB_COLUMNS)) for line in text.split("\n")))


def interactive() -> bool:
    """Can a person be asked?"""
    return sys.stdin.isatty() and sys.stderr.isatty()
