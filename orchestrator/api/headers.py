"""What each answer tells browsers and proxies, whoever made it: keep it nowhere, take it for nothing else, frame it
nowhere. What an answer says itself stands."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .prefix import route_of

DEFAULTS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# Files of a release: a browser asks each time whether they have changed, and is told mostly that they have not.
STATIC, REVALIDATED = "/console/static/", "no-cache"


class Defaults:
    """Middleware: what every answer says unless its route has said otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = route_of(scope).startswith(STATIC)

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULTS.items():
                    headers.setdefault(name, REVALIDATED if is_static and name == "Cache-Control" else value)
            await send(message)

        await self._app(scope, receive, telling)
