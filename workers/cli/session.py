"""`muster task turns` and `export`: what a session holds. Found by their entry point."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from transport.base import Blobs, TaskRecord
from transport.errors import NotFound

from ..sessions.checkpoints import Checkpoints
from ..sessions.export import as_json, as_markdown
from ..sessions.turn_log import Turn, files_changed, turns_of
from ..tools.spill import OUTPUT_BLOB
from .replay import SessionOf

TITLE_CHARS = 60

app = typer.Typer()

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="A task's id, or its end as `task list` shows it.")]


@app.command("turns")
def turns(
    context: typer.Context,
    task: TaskId,
    file: Annotated[str, typer.Option(metavar="PATH", help="Only turns that changed this file.")] = "",
    in_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the turns of a task's session: what was said, which tools ran, which files changed."""
    found, files = asyncio.run(_read(context.obj, task))
    for turn, changed in zip(found, files, strict=True):
        if file and file not in changed:
            continue
        value = {"turn": turn.number, "prompts": turn.prompts, "tools": turn.tools, "files": changed}
        _line(json.dumps(value) if in_json else _readable(turn, changed))


@app.command("export")
def export(
    context: typer.Context,
    task: TaskId,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Without the texts: lengths in their place.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="To read, instead of JSON.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write here instead of stdout.")] = None,
) -> None:
    """Write a task's session: its messages, calls, turns and costs."""
    text = asyncio.run(_export(context.obj, task, sanitize=sanitize, markdown=markdown))
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text)


@app.command("output")
def output(
    context: typer.Context, task: TaskId, call: Annotated[str, typer.Argument(metavar="CALL", help="A call's id.")]
) -> None:
    """Print the whole output of a tool call, also of one that the model saw cut."""
    sys.stdout.write(f"{asyncio.run(_output(context.obj, task, call))}\n")


async def exported(blobs: Blobs, checkpoint: str, *, sanitize: bool, markdown: bool) -> str:
    """A session as a text for people or programs. Found by its module's entry point by the API, too."""
    session = await Checkpoints(blobs).load(checkpoint)
    if markdown:
        return as_markdown(session, sanitize=sanitize)
    found = await turns_of(blobs, checkpoint)
    told = as_json(session, found, await files_changed(blobs, found), sanitize=sanitize)
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


async def _export(session_of: SessionOf, words: str, *, sanitize: bool, markdown: bool) -> str:
    async with session_of(words) as (transport, record):
        return await exported(transport.blobs, _checkpoint(record), sanitize=sanitize, markdown=markdown)


async def _output(session_of: SessionOf, words: str, call_id: str) -> str:
    async with session_of(words) as (transport, record):
        session = await Checkpoints(transport.blobs).load(_checkpoint(record))
        answers = [message for message in session.messages if message.tool_call_id == call_id]
        if not answers:
            raise NotFound(f"the session has no answer to a call {call_id!r}", hint="see: muster task logs --json")
        blob = answers[-1].metadata.get(OUTPUT_BLOB)
        return (await transport.blobs.get(blob)).decode() if blob else answers[-1].content


async def _read(session_of: SessionOf, words: str) -> tuple[list[Turn], list[list[str]]]:
    async with session_of(words) as (transport, record):
        found = await turns_of(transport.blobs, _checkpoint(record))
        return found, await files_changed(transport.blobs, found)


def _checkpoint(record: TaskRecord) -> str:
    if record.checkpoint is None:
        raise NotFound(f"the task {record.task_id} has no session yet", hint="it has one after its first turn")
    return record.checkpoint


def _readable(turn: Turn, files: list[str]) -> str:
    said = " ".join(turn.prompts[-1].split())[:TITLE_CHARS] if turn.prompts else ""
    parts = [f"{turn.number:>4}", f'"{said}"' if said else "", ", ".join(turn.tools) or "answer", " ".join(files)]
    return _plain("  ".join(part for part in parts if part))


def _plain(text: str) -> str:
    """A path or a prompt gives a terminal no orders."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
