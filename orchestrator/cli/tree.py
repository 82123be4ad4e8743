"""A view as rows of text. Pure: what is seen at one moment, in one width and height."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from envelope.lifecycle import State

from ..session.fold import Session
from ..session.task import TaskView
from ..units import dollars, duration, tokens
from ..words import reason_text
from .console import plain
from .plan_lines import how_far

GLYPHS: dict[State, tuple[str, str]] = {
    State.PENDING: ("·", "dim"),
    State.RUNNING: ("●", "cyan"),
    State.WAITING: ("◌", "yellow"),
    State.COMPLETED: ("✔", "green"),
    State.ERROR: ("✘", "red"),
    State.CANCELLED: ("⊘", "yellow"),
    State.EXPIRED: ("⌛", "red"),
}
# Where there is no room for all: what moves first, then what went wrong, then what waits, then what is done.
INTEREST = [State.RUNNING, State.WAITING, State.ERROR, State.EXPIRED, State.CANCELLED, State.PENDING, State.COMPLETED]
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
            table.add_row(_name(row.task, row.depth), Text(doing_with(view, row.task)), *_figures(row.task, now_ms))
    return table


def _name(task: TaskView, depth: int) -> Text:
    glyph, style = GLYPHS[task.state]
    return Text.assemble(INDENT * depth, (glyph, style), " ", (task.agent or "task", "bold"), " ", plain(task.title))


def doing_with(view: Session, task: TaskView) -> str:
    """What a task is at; of an agent with subagents at work also how many of them have ended. Each has its own row."""
    ended = [view.tasks[child].ended for child in task.children]
    if task.ended or not task.turn or all(ended):
        return doing(task)
    return " · ".join(part for part in (f"{sum(ended)}/{len(ended)} ended", doing(task)) if part)


def doing(task: TaskView) -> str:
    """What a task is at, or how it ended when that says more than its state."""
    if task.ended:
        return plain(task.error.partition("\n")[0]) or ("as before" if task.reused else "")
    if task.asks:
        return "asks: " + plain(next(iter(task.asks.values())))
    if task.state is State.WAITING and (stop := task.stopped_by):
        return f"waits for money: {dollars(stop.spent)} of the {stop.whose}'s {dollars(stop.allowed)} are spent"
    if task.state is not State.RUNNING and task.reason:
        return reason_text(task.reason)
    plan = [how_far(task.plan)] if task.plan else []
    tool = task.current_tool
    now = f"{tool.tool} {tool.title}".strip() if tool else "thinking" if task.turn else ""
    return plain(" · ".join([*([now] if now else []), *plan]))


def _figures(task: TaskView, now_ms: int) -> tuple[str, str, str, str]:
    used = task.usage.total_tokens
    started, ended = task.started_at_ms, task.ended_at_ms
    return (
        f"{task.turn} turns" if task.turn > 1 else "1 turn" if task.turn else "",
        tokens(used) if used else "",
        dollars(task.cost_microusd) if task.cost_microusd else "",
        duration((ended or now_ms) - started) if started is not None else "",
    )
