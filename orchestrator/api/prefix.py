"""The server below a path of a proxy's, as `public_url` names it: https://tools.example.com/muster, say."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import BadSettings
from ..settings import Settings

# What begins so is a route of the server's own, and could not be told from what a proxy has put before it.
OWN = ("/console", "/v1", "/mcp")


def prefix_of(settings: Settings) -> str:
    """Empty where browsers reach the server at the root of its host.

    >>> prefix_of(Settings(public_url="https://tools.example.com/muster/"))
    '/muster'
    """
    parts = urlsplit(settings.public_url)
    path = parts.path.rstrip("/") if parts.netloc else ""
    if any(f"{path}/".startswith(f"{each}/") for each in OWN):
        hint = f"leave {path} out, or have the proxy serve it below another path"
        raise BadSettings(f"public_url is the server's own, and ends in a page of it: {path}", hint=hint)
    return path


def route_of(scope: Scope) -> str:
    """The path as the server's own routes have it.

    >>> route_of({"path": "/muster/v1/tasks", "root_path": "/muster"})
    '/v1/tasks'
    """
    return scope["path"].removeprefix(scope.get("root_path", ""))


class Prefixed:
    """Middleware: all paths have the prefix, whether the proxy takes it away or not."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path, prefix = scope["path"], self._prefix
            path = path if f"{path}/".startswith(f"{prefix}/") else prefix + path
            scope = {**scope, "path": f"{path}/" if path == prefix else path, "root_path": prefix}
        await self._app(scope, receive, send)
