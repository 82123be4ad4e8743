"""No body is read further than its route's limit, whatever its header says, nor waited for longer than that takes."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .prefix import route_of
from .problems import problem

MAX_JSON_BYTES = 1024 * 1024  # of an envelope, too
MAX_BLOB_BYTES = 64 * 1024 * 1024  # a repository's bundle; what is larger comes by URL
MAX_SIGN_IN_BYTES = 16 * 1024  # of somebody who has not said yet who they are
MAX_LINKED_BYTES = 64 * 1024
LIMITS = {
    "/v1/blobs": MAX_BLOB_BYTES,
    "/console/start": MAX_BLOB_BYTES,
    "/console/sign-in": MAX_SIGN_IN_BYTES,
}
LINKS = "/v1/answers/"  # whoever has a link shows no token
# For a whole body: a slow line has 20 KB/s of JSON, and 200 KB/s of a blob of the largest size.
JSON_S, BLOB_S = 60.0, 360.0


class BodyCap:
    """Middleware: 413 as soon as a body is too long, 408 when it does not come to an end in time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        names = [name for name, _ in scope["headers"]]
        if b"content-length" in names and b"transfer-encoding" in names:
            # a proxy may have gone by the other one, and would take the rest of this body for another's request
            answer = problem(HTTPStatus.BAD_REQUEST, "the body has two lengths")
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
            return
        route = route_of(scope)
        limit = LIMITS.get(route, MAX_LINKED_BYTES if route.startswith(LINKS) else MAX_JSON_BYTES)
        time_s = BLOB_S if limit == MAX_BLOB_BYTES else JSON_S
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        is_too_long = told.isdigit() and int(told) > limit
        read, is_whole = 0, False
        until_s = asyncio.get_running_loop().time() + time_s

        async def counted() -> Message:
            nonlocal read, is_whole
            if is_whole:  # what may come now is the end of the connection, for which streams wait as long as they last
                return await receive()
            if is_too_long:  # said before a byte of it is read; a page says so to who looks at pages
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _said(limit))
            try:
                async with asyncio.timeout_at(until_s):
                    message = await receive()
            except TimeoutError as e:
                raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, f"the body took more than {time_s:g} s") from e
            read += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if read > limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _said(limit))
            return message

        await self._app(scope, counted, send)


def _said(limit: int) -> str:
    return f"the body is larger than {limit} bytes"
