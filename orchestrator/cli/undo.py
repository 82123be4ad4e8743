"""`muster task revert` and `unrevert`: a session and its work as they stood when a turn ended."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from envelope.agent_params import AgentParams

from ..errors import TaskFailed
from ..prompting import listener, undoing
from ..settings import load_settings
from .console import answer, data, note
from .find import find_task
from .fleet import open_fleet
from .options import TaskId

app = typer.Typer()


@app.command("undo")
def undo(task: TaskId) -> None:
    """Take back the last prompt of a task's session, and all that was done since (/undo)."""
    asyncio.run(_undo(task, AgentParams(undo=True)))


@app.command("revert")
def revert(
    task: TaskId,
    to: Annotated[int, typer.Option("--to", metavar="TURN", min=0, help="The turn to go back to: see `task turns`.")],
) -> None:
    """Take a task's session and its work back to where a turn ended.

    A task of its own, whose id is printed: its change is what is left, and a prompt to it goes on from there. Refused
    while the session is under way.
    """
    asyncio.run(_undo(task, AgentParams(revert_to=to)))


@app.command("unrevert")
def unrevert(task: TaskId) -> None:
    """Take the last undo or revert back; possible until something was said to the session (/redo)."""
    asyncio.run(_undo(task, AgentParams(unrevert=True)))


async def _undo(words: str, params: AgentParams) -> None:
    async with open_fleet(load_settings()) as muster:
        record = await find_task(muster, words)
        handle = await muster.submit(undoing(await listener(muster.transport, record.task_id), params))
        [result] = await muster.gather([handle])
        if result.errors:
            raise TaskFailed(result.errors[0])
        answer(result.output.text)
        note(f"see what is left: muster task diff {handle.task_id}; go on: muster task prompt {handle.task_id} TEXT")
        data(handle.task_id)
