"""Traces: the stream of events, the tree that it folds to, the money."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from transport.admission import check_trace
from transport.base import Entry

from ..session.told import funds_as_json, tree_as_json
from .access import Approver, Caller, Viewer
from .answers import told_at_once
from .budgets import Cap, Money
from .reading import BodyRoute
from .streams import EventStream
from .tokens import Tokens

router = APIRouter(route_class=BodyRoute, prefix="/v1/traces", tags=["traces"])

# Proxies and browsers end a stream that is silent for longer than about a minute.
SILENCE_S = 15.0


@router.get("/{trace_id}/events", response_class=StreamingResponse)
async def follow_events(
    trace_id: str,
    caller: Viewer,
    request: Request,
    last_event_id: Annotated[str, Header(pattern=r"^[0-9]{1,20}(-[0-9]{1,20})?$")] = "0",
) -> StreamingResponse:
    """Server-sent events: each `data` is one message of the trace, each `id` is what a reader resumes after.

    Ends, with an event `end`, after the result of the trace's root task.
    """
    await caller.require_trace(trace_id)
    check_trace(trace_id, last_event_id)  # later it would be too late for a problem
    events = _stream(caller, request.app.state.tokens, trace_id, last_event_id)
    return EventStream(events, request.app.state.streams, caller.token.name)


async def _stream(caller: Caller, tokens: Tokens, trace_id: str, after: str) -> AsyncGenerator[str]:
    """A comment now and then where nothing happens; a reader that is slow holds up nobody else.

    Without its token, which may be revoked meanwhile, it goes on for `SILENCE_S` at most.
    """
    look_at_s = time.monotonic() + SILENCE_S
    entries = aiter(caller.muster.follow(trace_id, after=after))
    coming = asyncio.ensure_future(anext(entries, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=SILENCE_S)
            if time.monotonic() >= look_at_s:
                if not await tokens.holds(caller.token):
                    return
                look_at_s = time.monotonic() + SILENCE_S
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


@router.get("/{trace_id}/budget", response_model=dict[str, Any])
async def show_budget(trace_id: str, caller: Viewer) -> Response:
    """What is spent, set aside and allowed, of a batch with its shards' parts; and which tasks wait for more."""
    await caller.require_trace(trace_id)
    return told_at_once(funds_as_json(await caller.muster.budget(trace_id)))


@router.post("/{trace_id}/budget")
async def raise_budget(trace_id: str, cap: Cap, caller: Approver) -> Money:
    """Let a trace, or a batch, spend up to this much; a higher cap stays. Who waits for money goes on."""
    await caller.require_trace(trace_id)
    return Money.of(await caller.muster.raise_budget(trace_id, cap.cap_microusd, by=caller.name))
