"""Three ways to show a view while it happens: a live tree, plain lines, JSON Lines."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table
from rich.text import Text

from transport.base import Entry

from ..client import Muster
from ..trace_view import TraceView
from .console import data, people
from .lines import milestones
from .tree import tree
from .watch import Show

REFRESH_PER_S = 8
# Room for the prompt, and for what the terminal scrolled in above the tree.
MARGIN_ROWS = 3


@contextmanager
def shown(view: TraceView, *, as_json: bool, skew_ms: int) -> Generator[Show]:
    """How to show a view here. `skew_ms` is the queue's clock less this machine's, for the times of what runs."""
    if as_json:
        yield _show_json
    elif people().is_terminal:
        picture = _Picture(view, skew_ms)
        with Live(picture, console=people(), refresh_per_second=REFRESH_PER_S, transient=False):
            yield picture.show
    else:
        yield _show_lines


async def skew_of(muster: Muster) -> int:
    return await muster.transport.now_ms() - _now_ms()


class _Picture:
    """Drawn by the display's own thread; a view is a value, so that half a change is never seen."""

    def __init__(self, view: TraceView, skew_ms: int) -> None:
        self._view = view
        self._skew_ms = skew_ms

    def show(self, view: TraceView, entry: Entry) -> None:
        self._view = view

    def __rich__(self) -> Table:
        height = people().size.height - MARGIN_ROWS
        return tree(self._view, now_ms=_now_ms() + self._skew_ms, max_rows=height)


def _show_lines(view: TraceView, entry: Entry) -> None:
    for line in milestones(view, entry):
        people().print(Text(line), soft_wrap=True)


def _show_json(view: TraceView, entry: Entry) -> None:
    data(json_line(entry))


def json_line(entry: Entry) -> str:
    """`id` is what a reader resumes after."""
    return json.dumps({"id": entry.id, **entry.message.model_dump(mode="json")}, separators=(",", ":"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
