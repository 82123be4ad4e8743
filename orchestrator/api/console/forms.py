"""What people have put into a form, as values. Errors are in the words of pages, not of commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import Request
from starlette.datastructures import FormData

from ...errors import Answered, BadInput
from ...units import parse_microusd
from ..problems import Problem

BACK = "go back and change it"


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
