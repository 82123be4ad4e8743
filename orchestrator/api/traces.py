"""Traces: the stream of events, the tree that it folds to, the money."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from transport.base import Entry, Ledger

from ..session.told import tree_as_json
from .access import Approver, Caller, Viewer
from .answers import told_at_once
from .tasks import Body

router = APIRouter(prefix="/v1/traces", tags=["traces"])

# Proxies and browsers end a stream that is silent for longer than about a minute.
SILENCE_S = 15.0


class Cap(Body):
    cap_microusd: Annotated[int, Field(ge=0, le=10**12)]


class Money(BaseModel):
    """`cap_microusd` is None where there is no cap."""

    spent_microusd: int
    reserved_microusd: int
    cap_microusd: int | None


@router.get("/{trace_id}/events", response_class=StreamingResponse)
async def follow_events(
    trace_id: str,
    caller: Viewer,
    last_event_id: Annotated[str, Header(pattern=r"^\d+(-\d+)*$", max_length=60)] = "0",
) -> StreamingResponse:
    """Server-sent events: each `data` is one message of the trace, each `id` is what a reader resumes after.

    Ends, with an event `end`, after the result of the trace's root task.
    """
    await caller.require_trace(trace_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(caller, trace_id, last_event_id), media_type="text/event-stream", headers=headers)


async def _stream(caller: Caller, trace_id: str, after: str) -> AsyncIterator[str]:
    """A comment now and then where nothing happens; a reader that is slow holds up nobody else."""
    entries = aiter(caller.muster.follow(trace_id, after=after))
    coming = asyncio.ensure_future(anext(entries, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=SILENCE_S)
            if not done:
                yield ": nothing new\n\n"
                continue
            entry = coming.result()
            if entry is None:
                yield "event: end\ndata: {}\n\n"
                return
            yield _event(entry)
            coming = asyncio.ensure_future(anext(entries, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _event(entry: Entry) -> str:
    # JSON has no line breaks of its own here, so that one line holds it whatever a model wrote
    return f"id: {entry.id}\ndata: {json.dumps(entry.message.model_dump(mode='json'), separators=(',', ':'))}\n\n"


@router.get("/{trace_id}", response_model=dict[str, Any])
async def show_trace(trace_id: str, caller: Viewer) -> Response:
    """The trace's tasks as they are now, folded from its events; `cursor` is where to follow them from."""
    await caller.require_trace(trace_id)
    return told_at_once(tree_as_json(await caller.muster.tree(trace_id), trace_id))


@router.post("/{trace_id}/budget")
async def raise_budget(trace_id: str, cap: Cap, caller: Approver) -> Money:
    """Let a trace spend up to this much; a higher cap stays. Who waits for money goes on."""
    await caller.require_trace(trace_id)
    return _money(await caller.muster.raise_budget(trace_id, cap.cap_microusd, by=caller.name))


def _money(ledger: Ledger) -> Money:
    return Money(
        spent_microusd=ledger.spent_microusd,
        reserved_microusd=ledger.reserved_microusd,
        cap_microusd=ledger.cap_microusd,
    )
