"""`muster task revert` and `unrevert`: a session and its work as they stood when a turn ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from transport.base import Handle

from ..client import Muster
from ..errors import TaskFailed
from ..settings import load_settings
from .console import answer, data, note
from .known import fleet_of
from .options import TaskId

app = typer.Typer()


@app.command("undo")
def undo(task: TaskId) -> None:
    """Take back the last prompt of a task's session, and all that was done since (/undo)."""
    asyncio.run(_undone(task, lambda muster, task_id: muster.prompt(task_id, "/undo")))


@app.command("revert")
def revert(
    task: TaskId,
    to: Annotated[int, typer.Option("--to", metavar="TURN", min=0, help="The turn to go back to: see `task turns`.")],
) -> None:
    """Take a task's session and its work back to where a turn ended.

    A task of its own, whose id is printed: its change is what is left, and a prompt to it goes on from there. Refused
    while the session is under way.
    """
    asyncio.run(_undone(task, lambda muster, task_id: muster.revert(task_id, to)))


@app.command("unrevert")
def unrevert(task: TaskId) -> None:
    """Take the last undo or revert back; possible until something was said to the session (/redo)."""
    asyncio.run(_undone(task, lambda muster, task_id: muster.prompt(task_id, "/redo")))


async def _undone(words: str, undo: Callable[[Muster, str], Awaitable[Handle]]) -> None:
    async with fleet_of(load_settings(), words) as (muster, record):
        handle = await undo(muster, record.task_id)
        [result] = await muster.gather([handle])
        if result.errors:
            raise TaskFailed(result.errors[0])
        answer(result.output.text)
        note(f"see what is left: muster task diff {handle.task_id}; go on: muster task prompt {handle.task_id} TEXT")
        data(handle.task_id)
