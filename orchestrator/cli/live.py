"""Three ways to show a view while it happens: a live tree, plain lines, JSON Lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table
from rich.text import Text

from transport.base import Entry

from ..client import Muster
from ..session.fold import Session
from ..watch import Show
from .console import data, people
from .lines import milestones
from .tree import tree

REFRESH_PER_S = 8
# Room for the prompt, and for what the terminal scrolled in above the tree.
MARGIN_ROWS = 3


@contextmanager
def shown(view: Session, *, as_json: bool, skew_ms: int) -> Generator[Show]:
    """How to show a view here. `skew_ms` is the queue's clock less this machine's, for the times of what runs."""
    if as_json:
        yield _show_json
    elif people().is_terminal:
        picture = _Picture(view, skew_ms)
        with Live(picture, console=people(), auto_refresh=False, transient=False) as live:
            refreshing = asyncio.create_task(_refresh(live))
            try:
                yield picture.show
            finally:
                refreshing.cancel()
    else:
        yield _show_lines


async def skew_of(muster: Muster) -> int:
    return await muster.transport.now_ms() - _now_ms()


async def _refresh(live: Live) -> None:
    """On the loop, as the fold is: a thread would see half a change. Times go on where nothing happens."""
    while True:
        live.refresh()
        await asyncio.sleep(1 / REFRESH_PER_S)


class _Picture:
    def __init__(self, view: Session, skew_ms: int) -> None:
        self._view = view
        self._skew_ms = skew_ms

    def show(self, view: Session, entry: Entry) -> None:
        self._view = view

    def __rich__(self) -> Table:
        height = people().size.height - MARGIN_ROWS
        return tree(self._view, now_ms=_now_ms() + self._skew_ms, max_rows=height)


def _show_lines(view: Session, entry: Entry) -> None:
    for line in milestones(view, entry):
        people().print(Text(line), soft_wrap=True)


def _show_json(view: Session, entry: Entry) -> None:
    data(json_line(entry))


def json_line(entry: Entry) -> str:
    """`id` is what a reader resumes after."""
    return json.dumps({"id": entry.id, **entry.message.model_dump(mode="json")}, separators=(",", ":"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
