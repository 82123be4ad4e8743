"""Tasks as a table for people, or as JSON Lines for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from transport.base import TaskRecord

from ..units import duration
from ..words import short
from .console import data, people, plain
from .tree import GLYPHS


def print_tasks(tasks: Iterable[TaskRecord], *, now_ms: int, as_json: bool) -> None:
    """People's tables go to stderr like all their text; a pipe gets what `--json` prints."""
    if as_json:
        for task in tasks:
            data(json.dumps(asdict(task)))
        return
    table = Table.grid(padding=(0, 2))
    for task in tasks:
        glyph, style = GLYPHS[task.state]
        ran_ms = (task.finished_at_ms or now_ms) - task.started_at_ms if task.started_at_ms is not None else None
        table.add_row(
            Text(short(task.task_id), style="bold"),
            Text(f"{glyph} {task.state}", style=style),
            task.agent,
            Text(plain(task.intent), style="dim"),
            "" if ran_ms is None else duration(ran_ms),
            Text(f"{duration(now_ms - task.accepted_at_ms)} ago", style="dim"),
        )
    people().print(table if table.row_count else Text("no tasks", style="dim"))
