"""What people have put into a form, as values. Errors are in the words of pages, not of commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import Request
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import Answered, BadInput
from ...units import parse_microusd
from ..problems import Problem
from .rendering import page

BACK = "go back and change it"
KINDS = (b"application/x-www-form-urlencoded", b"multipart/form-data")


class PlainForms:
    """Middleware: 415 for a body that is no form of a page of ours. Nothing of it is read.

    A form's header may name its character set, and the library decodes by whatever Python knows: a megabyte of
    `punycode` holds up everybody for minutes, before anybody has asked who sends it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not _is_plain(Headers(scope=scope)):
            request = Request(scope)
            title, hint = "This is no form of these pages.", "load the page again"
            status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            answer = page(request, "problem.html", status=status, title=title, hint=hint, code=int(status))
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_plain(headers: Headers) -> bool:
    kind, options = parse_options_header(headers.get("content-type"))
    return kind in KINDS and options.get(b"charset", b"utf-8").lower() == b"utf-8"


async def form_of(request: Request) -> FormData:
    """Read once, by whoever has checked where it comes from (`visitor`)."""
    return await request.form()


def text_of(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def lines_of(form: FormData, name: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text_of(form, name).splitlines() if line.strip())


def texts_of(form: FormData, name: str) -> list[str]:
    return [value.strip() for value in form.getlist(name) if isinstance(value, str) and value.strip()]


def money_of(form: FormData, name: str) -> int | None:
    """In micro-dollars; None where nothing is said."""
    text = text_of(form, name)
    try:
        return parse_microusd(text) if text else None
    except ValueError as e:
        raise unusable(str(e)) from e


def amount_of(form: FormData, name: str) -> int:
    """As `money_of`, of a field that has to say something."""
    if (amount := money_of(form, name)) is None:
        raise unusable("no amount was named", "say in dollars what all of it may cost")
    return amount


def unusable(said: str, hint: str = BACK) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, said, hint=hint)


@asynccontextmanager
async def in_words_of_pages() -> AsyncGenerator[None]:
    """A hint that names an option of a command helps nobody before a form."""
    try:
        yield
    except Answered:
        raise
    except BadInput as e:
        raise unusable(e.message) from e
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise unusable(f"{where}: {str(fault['msg']).removeprefix('Value error, ')}") from e
