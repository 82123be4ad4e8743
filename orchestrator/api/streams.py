"""Streams of events to readers that may be many, slow, and not entitled any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from envelope.errors import MusterError
from envelope.logs import get_logger

from .problems import problem

_log = get_logger("api")

# Each holds a connection to Redis, of which a server has 10,000 for all of the fleet.
MOST = 100
NO_HEADERS: Mapping[str, str] = {}


@dataclass(slots=True)
class Streams:
    """How many each token has open in this process."""

    most: int = MOST
    open: Counter[str] = field(default_factory=Counter[str])


class EventStream(StreamingResponse):
    """One of a token's streams, from its first byte to its last, however it ends; 429 when there are too many."""

    def __init__(
        self,
        events: AsyncGenerator[str] | AsyncGenerator[bytes],
        streams: Streams,
        token: str,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        own = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers={**own, **headers})
        self._events = _up_to_a_fault(events)
        self.body_iterator = self._events
        self._streams = streams
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams.open[self._token] >= self._streams.most:
            title, hint = (
                f"{self._streams.most} streams are open with this token",
                "close one; one follows a whole trace",
            )
            await problem(HTTPStatus.TOO_MANY_REQUESTS, title, hint=hint, retry_after_s=1)(scope, receive, send)
            return
        self._streams.open[self._token] += 1
        try:
            async with aclosing(self._events):  # where its reader has gone, what it stands on ends with it, and at once
                await super().__call__(scope, receive, send)
        finally:
            self._streams.open[self._token] -= 1


async def _up_to_a_fault(events: AsyncGenerator[Any]) -> AsyncGenerator[Any]:
    """Its readers know by the missing end that there is more, and come again from where they were."""
    async with aclosing(events):
        try:
            async for event in events:
                yield event
        except MusterError as e:
            _log.warning("stream_broken", error=str(e))
