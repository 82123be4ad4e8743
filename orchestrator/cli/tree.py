"""A view as rows of text. Pure: what is seen at one moment, in one width and height."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from envelope.lifecycle import State

from ..session.fold import Session
from ..session.said import GLYPH, INTEREST, doing_with, figures
from ..session.task import TaskView
from .console import plain

STYLES: dict[State, str] = {
    State.PENDING: "dim",
    State.RUNNING: "cyan",
    State.WAITING: "yellow",
    State.COMPLETED: "green",
    State.ERROR: "red",
    State.CANCELLED: "yellow",
    State.EXPIRED: "red",
}
GLYPHS: dict[State, tuple[str, str]] = {state: (glyph, STYLES[state]) for state, glyph in GLYPH.items()}
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Row:
    """One task, or a line that stands for several that are not shown (`task` is None)."""

    depth: int
    task: TaskView | None
    hidden: str = ""


def rows(view: Session, *, max_rows: int) -> list[Row]:
    """The tree from its root in at most `max_rows` lines. Siblings stand in the order in which they were started; where
    some must be left out, the most interesting ones stay and a line counts the others."""
    return list(_rows(view, view.root_task, 0, max(1, max_rows)))


def _rows(view: Session, task: TaskView, depth: int, room: int) -> Iterator[Row]:
    """At least one row, at most `room`; what the first children leave over is the next ones' room."""
    yield Row(depth, task)
    children = [view.tasks[child] for child in task.children]
    if not children or room < 2:
        return
    shown, hidden = _chosen(children, room - 1)
    spare = room - 1 - len(shown) - bool(hidden)
    for child in shown:
        below = list(_rows(view, child, depth + 1, 1 + spare))
        spare -= len(below) - 1
        yield from below
    if hidden:
        states = Counter(child.state for child in hidden)
        counted = ", ".join(f"{states[state]} {state}" for state in INTEREST if states[state])
        yield Row(depth + 1, None, f"… {len(hidden)} more ({counted})")


def _chosen(children: list[TaskView], room: int) -> tuple[list[TaskView], list[TaskView]]:
    """Who is shown in so many lines, and whom a last line must count."""
    if len(children) <= room:
        return children, []
    ordered = sorted(children, key=lambda child: INTEREST.index(child.state))
    return ordered[: room - 1], ordered[room - 1 :]


def tree(view: Session, *, now_ms: int, max_rows: int) -> Table:
    """Columns: state, agent and title; what it does now; turns, tokens, cost and time."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=2, no_wrap=True, overflow="ellipsis", style="dim")
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for row in rows(view, max_rows=max_rows):
        if row.task is None:
            table.add_row(Text(INDENT * row.depth + row.hidden, style="dim"))
        else:
            table.add_row(_name(row.task, row.depth), Text(doing_with(view, row.task)), *figures(row.task, now_ms))
    return table


def _name(task: TaskView, depth: int) -> Text:
    glyph, style = GLYPHS[task.state]
    return Text.assemble(INDENT * depth, (glyph, style), " ", (task.agent or "task", "bold"), " ", plain(task.title))
