"""Pages that stay up to date: a room's news as server-sent events, each a JSON object of parts by id."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Request

from ..caller import Caller
from ..streams import EventStream
from .packing import Message, Packing
from .rooms import Looks, News, Pace, Rooms
from .visitor import signed_in

# Proxies end a stream that is silent for about a minute; and who was signed out sees nothing new for longer than this.
SILENCE_S = 15.0
BEGIN = Message(b"retry: 1000\n\n")
STILL_HERE = Message(b": still here\n\n")
END = Message(b"event: end\ndata: {}\n\n")


def live(request: Request, caller: Caller, name: str, looks: Looks, *, pace: Pace | None = None) -> EventStream:
    """The news of the room `name` since the header `Last-Event-ID`, or the query's `after`.

    `pace`: of a page whose looks are of one moment each, and hear of nothing between them.
    """
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    rooms: Rooms = request.app.state.rooms
    packing = Packing(gzip="gzip" in request.headers.get("accept-encoding", ""))
    events = _events(request, caller, rooms.visit(name, looks, after, pace=pace, silence_s=SILENCE_S), packing)
    return EventStream(events, request.app.state.streams, f"console:{caller.token.name}", packing.headers)


async def _events(
    request: Request, caller: Caller, coming: AsyncGenerator[News | None], packing: Packing
) -> AsyncGenerator[bytes]:
    """Who is signed out, or whose token was revoked or says other rights now, is sent no more, and no end: they come
    again, and hear why."""
    yield packing.bytes_of(BEGIN)
    look_at_s = time.monotonic() + SILENCE_S
    async with aclosing(coming):
        async for news in coming:
            if time.monotonic() >= look_at_s:
                visitor = await signed_in(request)
                if visitor is None or visitor.token != caller.token:
                    break
                look_at_s = time.monotonic() + SILENCE_S
            yield packing.bytes_of(news.message if news else STILL_HERE)
        else:
            yield packing.bytes_of(END)
    yield packing.end()
