"""Pages that stay up to date: a room's news as server-sent events, each a JSON object of parts by id."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator

from fastapi import Request

from ..caller import Caller
from ..streams import EventStream
from .rooms import Looks, News, Rooms
from .visitor import signed_in

# Proxies end a stream that is silent for about a minute; and who was signed out sees nothing new for longer than this.
SILENCE_S = 15.0
RETRY_MS = 1000


def live(request: Request, caller: Caller, name: str, looks: Looks) -> EventStream:
    """The news of the room `name` since the header `Last-Event-ID`, or the query's `after`."""
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    rooms: Rooms = request.app.state.rooms
    return EventStream(
        _events(request, rooms.visit(name, looks, after)), request.app.state.streams, f"console:{caller.token.name}"
    )


async def _events(request: Request, coming: AsyncGenerator[News]) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    look_at_s = time.monotonic() + SILENCE_S
    upcoming = asyncio.ensure_future(anext(coming, None))
    try:
        while True:
            await asyncio.wait({upcoming}, timeout=max(0.0, look_at_s - time.monotonic()))
            if time.monotonic() >= look_at_s:
                look_at_s = time.monotonic() + SILENCE_S
                if signed_in(request) is None:
                    return
                yield ": still here\n\n"
            if not upcoming.done():
                continue
            news = upcoming.result()
            if news is None:
                yield "event: end\ndata: {}\n\n"
                return
            yield f"id: {news.id}\ndata: {json.dumps(dict(news.parts), separators=(',', ':'))}\n\n"
            upcoming = asyncio.ensure_future(anext(coming, None))
    finally:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)
        await coming.aclose()
