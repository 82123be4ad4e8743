"""No body is read further than its route's limit, whatever its header says."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import problem

MAX_JSON_BYTES = 1024 * 1024  # of an envelope, too
MAX_BLOB_BYTES = 64 * 1024 * 1024  # a repository's bundle; what is larger comes by URL
BLOBS = "/v1/blobs"


class BodyCap:
    """Middleware: 413 as soon as a body is too long."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = MAX_BLOB_BYTES if scope["path"] == BLOBS else MAX_JSON_BYTES
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if told.isdigit() and int(told) > limit:
            await problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _said(limit))(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _said(limit))
            return message

        await self._app(scope, counted, send)


def _said(limit: int) -> str:
    return f"the body is larger than {limit} bytes"
