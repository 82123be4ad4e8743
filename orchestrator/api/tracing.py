"""A caller's trace goes on in what it submits: the headers `traceparent` and `tracestate` of W3C Trace Context."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from envelope.tracing.context import context_of
from envelope.tracing.spans import continued


class Continued:
    """Middleware. Headers that do not read are as none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        with continued(context_of(headers.get("traceparent", ""), headers.get("tracestate", ""))):
            await self._app(scope, receive, send)
