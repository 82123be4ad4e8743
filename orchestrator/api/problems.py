"""Errors as problem details (RFC 9457): `title` says what, `hint` what to do next, `code` is the word for programs."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from envelope.errors import MusterError
from envelope.logs import get_logger
from repo.errors import DiskFull, GitTimedOut, RemoteDown, RepoError
from transport.errors import (
    AllowanceSpent,
    BlobsUnreachable,
    Busy,
    Misconfigured,
    NotFound,
    QueueFull,
    Refused,
    Unreachable,
)

from ..errors import Answered, BadInput, BadSettings, UnderWay, code_of
from ..looking import WouldWrite
from ..publication.errors import ForgeDown, ForgeLimits
from .prefix import route_of

_log = get_logger("api")


class Problem(MusterError):
    """What has no class of its own: missing rights, bodies that are too large."""

    def __init__(self, status: HTTPStatus, message: str, *, hint: str = "", retry_after_s: float = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s


DOWN = (RemoteDown, GitTimedOut, DiskFull, ForgeDown, ForgeLimits)
# The first that fits.
STATUS: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (Busy, HTTPStatus.CONFLICT),
    (QueueFull, HTTPStatus.SERVICE_UNAVAILABLE),
    (AllowanceSpent, HTTPStatus.TOO_MANY_REQUESTS),
    (Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (Refused, HTTPStatus.UNPROCESSABLE_ENTITY),
    (Answered, HTTPStatus.CONFLICT),
    (UnderWay, HTTPStatus.CONFLICT),
    (WouldWrite, HTTPStatus.FORBIDDEN),
    (BadSettings, HTTPStatus.INTERNAL_SERVER_ERROR),
    (BadInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    *((kind, HTTPStatus.SERVICE_UNAVAILABLE) for kind in DOWN),
    (RepoError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class Told(BaseModel):
    """What an error is answered with."""

    type: str = "about:blank"
    status: int
    title: str
    hint: str = ""
    code: str = ""


# In the description of every route: an error of ours, whatever its status.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    kind: {"description": said, "content": {"application/problem+json": {"schema": Told.model_json_schema()}}}
    for kind, said in (("4XX", "A problem with the call."), ("5XX", "A problem of the server's."))
}


def add_problems(app: FastAPI) -> None:
    app.add_exception_handler(MusterError, _of_ours)
    app.add_exception_handler(RepoError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_body)
    app.add_exception_handler(HTTPException, _of_route)
    app.add_exception_handler(Exception, _unforeseen)


def problem(
    status: HTTPStatus, title: str, *, hint: str = "", code: str = "", retry_after_s: float = 0
) -> JSONResponse:
    """An answer of problem details; what is empty is left out."""
    content = {"type": "about:blank", "status": int(status), "title": title, "hint": hint, "code": code}
    headers = {"Retry-After": str(math.ceil(retry_after_s))} if retry_after_s else {}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    kept = {name: value for name, value in content.items() if value != ""}
    return JSONResponse(kept, status, headers, media_type="application/problem+json")


def status_of(error: Exception) -> HTTPStatus:
    if isinstance(error, Problem):
        return error.status
    known = (status for kind, status in STATUS if isinstance(error, kind))
    return next(known, HTTPStatus.INTERNAL_SERVER_ERROR)


# What is the server's own trouble, with its paths and its neighbours' addresses, is its operator's to read about.
INSIDE: tuple[tuple[type[Exception], str, str], ...] = (
    (BadSettings, "something is wrong with the server's settings", "whoever runs it finds what in its log"),
    (BlobsUnreachable, "the fleet's store of large texts does not answer", "come again in a moment"),
    (Unreachable, "the fleet's Redis does not answer", "come again in a moment"),
    (Misconfigured, "something is wrong with the fleet's Redis", "whoever runs it finds what in the server's log"),
)


def told_outside(error: MusterError | RepoError) -> tuple[str, str]:
    """Title and hint of an error, as callers may read them."""
    for kind, title, hint in INSIDE:
        if isinstance(error, kind):
            _log.error("server_in_trouble", error=str(error), hint=error.hint)
            return title, hint
    return str(error), error.hint


async def _of_ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MusterError | RepoError)
    code = "" if isinstance(error, Problem) else code_of(error) or ""
    wait_s = getattr(error, "retry_after_s", 0)
    title, hint = told_outside(error)
    return problem(status_of(error), title, hint=hint, code=code, retry_after_s=wait_s)


async def _of_body(_: Request, error: Exception) -> JSONResponse:
    """The first fault, by its place; never what was sent, which may be a secret in the wrong field."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    where = ".".join(map(str, fault["loc"]))[:200]
    said = str(fault["msg"]).removeprefix("Value error, ")
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where}: {said}", hint="the fields are in /openapi.json")


async def _of_route(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = problem(HTTPStatus(error.status_code), str(error.detail))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(_methods_of(request))
    return answer


def _methods_of(request: Request) -> list[str]:
    """Of all routes with this path: the framework names those of the first one only."""
    known: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    here = (methods for path, methods in known.items() if compile_path(path)[0].match(route_of(request.scope)))
    return sorted({name.upper() for methods in here for name in methods} or {"GET"})


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    _log.error("api_failed", path=request.url.path, error=type(error).__name__)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "something unforeseen happened", hint="it is in the server's log")
