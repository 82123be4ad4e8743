"""MCP over HTTP: the library speaks the protocol, and each of its requests takes the way of the web tools.

That is a tunnel of the egress proxy that knows this one server, at addresses that may be reached. A redirect to
elsewhere is refused by the library, and would be by the proxy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from ..duck import MARKS
from ..web.addresses import AddressPolicy
from ..web.errors import WebError
from ..web.tunnel import session_for
from ..web.urls import parse_url
from .stdio import MAX_LINE_BYTES

EVENTS, EVENTS_END = "text/event-stream", b"\n\n"
# In one message, in texts or not: the library makes values of it at once, which takes a microsecond each.
MAX_MARKS = 500_000
# The client sets them again.
OWN_HEADERS = frozenset({"host", "connection", "content-length", "accept-encoding", "transfer-encoding"})
# What the library would say without a reason.
REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})


@asynccontextmanager
async def streams_over_http(url: str, headers: Mapping[str, str], policy: AddressPolicy) -> AsyncGenerator[Any]:
    """The pair of streams that the library's client speaks through."""
    sent = {"User-Agent": "Muster", **headers}
    async with (
        session_for(parse_url(url), policy) as session,
        httpx2.AsyncClient(transport=_Tunnelled(session), headers=sent, trust_env=False, timeout=None) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE_BYTES) as streams,
    ):
        yield streams


class _Tunnelled(httpx2.AsyncBaseTransport):
    """Whatever goes wrong is an answer: an error that is raised here would end the conversation for all its calls."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in OWN_HEADERS]
        try:
            response = await self._session.request(
                request.method,
                str(request.url),
                data=body or None,
                headers=[*headers, ("Accept-Encoding", "identity")],
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),  # the connection's own time-out is around all of this
            )
        except (aiohttp.ClientError, WebError, OSError, ValueError) as error:
            return _fault(CONNECTION_CLOSED, str(error) or type(error).__name__)
        if reason := _refusal(response):
            response.close()
            return _fault(INTERNAL_ERROR, reason)
        return httpx2.Response(response.status, headers=response.headers.items(), stream=_Bounded(response))  # pyright: ignore[reportArgumentType]


class _Bounded(httpx2.AsyncByteStream):
    """A body as it comes. Events are bounded one by one, by the library; anything else as a whole."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._limit_bytes = None if response.content_type == EVENTS else MAX_LINE_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = marks = 0
        try:
            async for chunk in self._response.content.iter_any():
                size_bytes += len(chunk)
                begun = chunk.rpartition(EVENTS_END)
                marks = sum(map(begun[2].count, MARKS)) + (0 if begun[1] else marks)
                if marks > MAX_MARKS:
                    raise httpx2.StreamError(f"a message has more than {MAX_MARKS} commas and brackets")
                if self._limit_bytes is not None and size_bytes > self._limit_bytes:
                    raise httpx2.StreamError(f"it is longer than {MAX_LINE_BYTES // 1024**2} MiB")
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.StreamError(f"it broke off: {error!r}") from error

    async def aclose(self) -> None:
        self._response.close()


def _refusal(response: aiohttp.ClientResponse) -> str:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return "the server packs its answers, which was not asked for"
    if response.status in REFUSALS or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"the server answered {response.status} {response.reason or ''}".rstrip()
    return ""


def _fault(code: int, reason: str) -> httpx2.Response:
    """A reason in the form in which the library passes it on."""
    error = {"code": code, "message": reason}
    return httpx2.Response(HTTPStatus.BAD_GATEWAY, json={"jsonrpc": "2.0", "id": None, "error": error})
