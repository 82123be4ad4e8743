"""A task: what it says and does as it goes on, its change, its attempts, and any moment of it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from envelope.events import ToolCallChanged
from envelope.messages import TaskResult
from transport.base import Entry, TaskRecord, Transport
from transport.errors import NotFound

from ...client import Muster
from ...life_lines import life_lines, told_of
from ...session.kept import COALESCED_S
from ...session.past import Moment, Pasts
from ...session.transcript import Block, Transcript
from ...side_by_side import side_by_side
from .live import live
from .offers import OF_TASKS, offered
from .rendering import HEADERS, fragment, page
from .rooms import Looks
from .tree import task_head
from .visitor import Viewer

router = APIRouter()

MAX_DIFF_BYTES = 4 * 1024 * 1024  # what is longer is downloaded
Step = Annotated[int | None, Query(ge=0)]


@router.get("/tasks/{task_id}")
async def show_task(request: Request, task_id: str, caller: Viewer, step: Step = None) -> Response:
    """`step`: as it was after so many of its entries."""
    record, pasts = await caller.record(task_id), _pasts(request)
    if step is None:
        past = await pasts.of(record)
        seen = past.now.copy()
    else:
        past, seen = await pasts.at(record, step)
    told = await told_of(caller.muster, task_id, past.life)
    transcript = seen.transcript
    return page(
        request,
        "task.html",
        record=told.record,
        task=seen.task,
        head=task_head(seen.session, seen.task, told.now_ms),
        blocks=[(f"block-{number}", _block(task_id, block)) for number, block in transcript.blocks.items()],
        dropped=transcript.count - len(transcript.blocks),
        life=list(life_lines(told, zone=UTC)),
        ledger=await caller.muster.transport.ledger(record.trace_id),
        at=None if step is None else seen.steps,
        steps=past.now.steps,
        now_ms=told.now_ms,
        may=await offered(caller, task_id, OF_TASKS),
    )


@router.get("/tasks/{task_id}/live")
async def follow_task(request: Request, task_id: str, caller: Viewer) -> Response:
    record = await caller.record(task_id)
    return live(request, caller, f"task:{task_id}", _going_on(_pasts(request), caller.muster, record))


@router.get("/tasks/{task_id}/diff")
async def show_diff(request: Request, task_id: str, caller: Viewer) -> Response:
    """Side by side, as far as a browser bears it; 404 while the task is under way."""
    record = await caller.record(task_id)
    diff = await caller.muster.diff(task_id)
    files, more = side_by_side(diff[:MAX_DIFF_BYTES])
    return page(
        request,
        "diff.html",
        record=record,
        files=files,
        more=more,
        size_bytes=len(diff),
        cut=len(diff) > MAX_DIFF_BYTES,
    )


@router.get("/tasks/{task_id}/change.diff")
async def download_diff(task_id: str, caller: Viewer) -> Response:
    await caller.record(task_id)
    return _download(await caller.muster.diff(task_id))


@router.get("/tasks/{task_id}/attachments/{name:path}")
async def download_attachment(task_id: str, name: str, caller: Viewer) -> Response:
    await caller.record(task_id)
    result = await caller.muster.result(task_id)
    if result is None:
        raise NotFound(f"the task {task_id} has not ended yet")
    return _download(await caller.muster.attachment(result, name))


@router.get("/tasks/{task_id}/output")
async def download_output(task_id: str, call: str, caller: Viewer) -> Response:
    """What a tool call gave: the whole of it, where even the model saw it cut, else what its task told of it."""
    record, told = await caller.record(task_id), ""
    async for entry in caller.muster.transport.follow(record.trace_id, wait=False, about=task_id):
        for event in _said_of(entry, task_id, call):
            if event.output_blob:
                return _download(await caller.muster.transport.blobs.get(event.output_blob))
            told = event.output or told
    if not told:
        raise NotFound(f"no output of the call {call[:100]} is kept", hint="go back to its task")
    return _download(told.encode())


def _said_of(entry: Entry, task_id: str, call_id: str) -> list[ToolCallChanged]:
    message = entry.message
    if isinstance(message, TaskResult) or message.task_id != task_id:
        return []
    return [event for event in message.events if isinstance(event, ToolCallChanged) and event.call_id == call_id]


def _download(content: bytes) -> Response:
    """Never shown by the browser: an agent made it."""
    headers = {**HEADERS, "Content-Disposition": "attachment"}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _pasts(request: Request) -> Pasts:
    return request.app.state.pasts


def _going_on(pasts: Pasts, muster: Muster, record: TaskRecord) -> Looks:
    """Each look has all that is kept of the task: the room sends what has changed."""

    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        seen = (await pasts.of(record)).now.copy()
        parts: dict[str, str] = {}
        changed, moved = set(seen.transcript.blocks), asyncio.Event()
        moved.set()
        reading = asyncio.create_task(_read_on(muster.transport, seen, record, changed, moved))
        reading.add_done_callback(lambda _: moved.set())
        try:
            while not reading.done() or changed or moved.is_set():
                await moved.wait()
                moved.clear()
                _redraw(parts, record.task_id, seen.transcript, changed)
                parts["task-head"] = task_head(seen.session, seen.task, await muster.transport.now_ms())
                yield parts
                if not reading.done():
                    await asyncio.wait({reading}, timeout=COALESCED_S)
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return looks


async def _read_on(
    transport: Transport, seen: Moment, record: TaskRecord, changed: set[int], moved: asyncio.Event
) -> None:
    """Takes what comes into `seen`, up to the task's end, and the numbers of its blocks into `changed`."""
    if seen.task.result is not None:
        return
    cursor = seen.session.cursor(record.trace_id)
    async for entry in transport.follow(record.trace_id, after=cursor, about=record.task_id):
        changed.update(seen.take(entry))
        moved.set()
        if seen.task.result is not None:
            return


def _redraw(parts: dict[str, str], task_id: str, transcript: Transcript, changed: set[int]) -> None:
    """The blocks that have changed; those that the transcript has dropped go."""
    for number in sorted(changed & transcript.blocks.keys()):
        parts[f"block-{number}"] = _block(task_id, transcript.blocks[number])
    changed.clear()
    for gone in [name for name in parts if name.startswith("block-") and not _is_kept(name, transcript)]:
        del parts[gone]


def _is_kept(name: str, transcript: Transcript) -> bool:
    return int(name.removeprefix("block-")) in transcript.blocks


def _block(task_id: str, block: Block) -> str:
    return fragment("task/block.html", task_id=task_id, block=block)
