"""Where words go: people's text to stderr, data to stdout. Colours and width are rich's business (`NO_COLOR`, …).

It is imported with the first words: a command whose work should begin at once says none before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from ..words import plain, shown

if TYPE_CHECKING:
    from rich.console import Console

TAB_COLUMNS = 4  # code in an answer keeps its shape


@cache
def people() -> Console:
    """Styles are given as such: no text is read as markup, moves the cursor or begins a line, whoever wrote it."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

    class Drawing(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(shown(text), **how)

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """All that is drawn comes by here, part by part. A table's cells are measured before they do."""
            is_table = isinstance(renderable, Table)
            parts = [cell for column in renderable.columns for cell in column.cells] if is_table else [renderable]
            for part in parts:
                if isinstance(part, Text):
                    part.plain = shown(part.plain)
            return super().render(renderable, options)

        @Console.file.getter
        def file(self) -> IO[str]:
            """Past the stream that writes no orders (`main.py`): those of this console are its own."""
            outer = super().file  # past rich's, if it has put one before ours
            return getattr(outer, "rich_proxied_file", outer)

    return Drawing(stderr=True, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """One line for people."""
    people().print(text, style="dim", soft_wrap=True)


def early(text: str, *, end: str = "\n") -> None:
    """As `note`, before the work has begun: rich's import would keep it waiting for longer than all else."""
    sys.stderr.write(f"{plain(text)}{end}")
    sys.stderr.flush()


def warn(text: str, hint: str = "") -> None:
    from rich.text import Text

    people().print(Text.assemble(("warning:", "yellow"), " ", text), soft_wrap=True)
    if hint:
        people().print(f"hint: {hint}", soft_wrap=True)


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
