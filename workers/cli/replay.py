"""`muster replay TASK`. Found by its entry point; the command line hands over its way to a task's records."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from transport.base import TaskRecord, Transport

from ..agents.registry import builtin, parse_agent
from ..errors import BadInput
from ..recording.replay import Replayed, find_cassette, replay

SessionOf = Callable[[str], AbstractAsyncContextManager[tuple[Transport, TaskRecord]]]


def replay_task(
    context: typer.Context,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task that was run with --record.")],
    agent: Annotated[
        Path | None, typer.Option("--agent", metavar="FILE", help="An agent's file to run it with, by its name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Run a recorded task again, offline: no model is asked, no tool is run, nothing is paid.

    The agents are those of this installation. Ends with 0 when everything is asked as it was then, else with 1 and the
    first difference.
    """
    ended = asyncio.run(_replay(context.obj, task, agent))
    sys.stdout.write(f"{json.dumps(as_value(ended)) if as_json else as_text(ended)}\n")
    raise typer.Exit(ExitCode.OK if ended.difference is None else ExitCode.NOT_ACCEPTABLE)


async def _replay(session_of: SessionOf, words: str, file: Path | None) -> Replayed:
    agents = dict(builtin())
    if file is not None:
        agents[file.stem] = parse_agent(file.stem, _text(file))
    async with session_of(words) as (transport, record):
        result = await transport.result(record.task_id)
        attached = {one.name: one.blob for one in result.attachments} if result else {}
        return await replay(await find_cassette(transport.blobs, attached, record.checkpoint), transport.blobs, agents)


def as_value(ended: Replayed) -> dict[str, object]:
    """For programs. `whole`: the recording holds the task's end."""
    found = ended.difference
    return {
        "same": found is None,
        "whole": ended.is_whole,
        "model_calls": ended.calls,
        "tool_results": ended.answers,
        "difference": dataclasses.asdict(found) if found else None,
    }


def as_text(ended: Replayed) -> str:
    """For people: a line, and where it went another way, how."""
    done = f"{ended.calls} model call(s), {ended.answers} tool result(s)"
    if ended.difference is None:
        end = "" if ended.is_whole else "; the recording ends before the task did"
        return f"the same: {done}{end}"
    found = ended.difference
    where = f"turn {found.turn}" if found.turn else "before the first turn"
    said = f"different in {where}: {found.what} (the same until then: {done})"
    return f"{said}\n{found.diff}" if found.diff else said


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise BadInput(f"{file} cannot be read: {e}", hint="name an agent's Markdown file") from e
