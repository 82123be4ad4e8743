"""Pages from templates. What models and repositories wrote is text in all of them: escaped, and without orders to
browsers or terminals."""

from __future__ import annotations

import re
import sys
import unicodedata
from contextvars import ContextVar
from functools import cache
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.types import ASGIApp, Receive, Scope, Send

from ...gating.text import gate_name, verdict_text
from ...units import dollars, duration, tokens
from ...words import clock, counted, short

HERE = Path(__file__).parent
# Nothing of another origin, nothing inline: a page that a model talked into a `<script>` shows it and runs nothing.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Formatting and control characters: overrides of the reading direction, what is invisible, escapes of terminals.
_KINDS = ("Cc", "Cf", "Co", "Cs")
_SHOWN = "\t\n"
# The path of the console, below which all its pages are. It differs behind a proxy (`prefix.py`).
_root: ContextVar[str] = ContextVar("root", default="/console")


def safe(text: object) -> str:
    """What people see is what is there: a character that is not seen, or turns others round, is shown as one.

    >>> safe("a\\u202eb\\x1b[2Jc\\n")
    'a\\ufffdb\\ufffd[2Jc\\n'
    """
    said = str(text)
    return said if said.isprintable() else _unseen().sub("\ufffd", said.replace("\r\n", "\n"))


@cache
def _unseen() -> re.Pattern[str]:
    """One expression of them all: a look at each character of a long output would hold up everybody's pages."""
    ranges: list[list[int]] = []
    for code in chain(range(0x20000), range(0xE0000, sys.maxunicode + 1)):  # between them are letters, or nothing
        if unicodedata.category(chr(code)) not in _KINDS or chr(code) in _SHOWN:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return re.compile("[" + "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges) + "]")


@cache
def templates() -> Environment:
    """All escape what they are given; a name that a template does not know is an error, not an empty place."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Any] = made.filters  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    filters |= {
        "dollars": dollars,
        "tokens": tokens,
        "duration": duration,
        "counted": counted,
        "short": short,
        "clock": clock,
        "gate_name": gate_name,
        "verdict_text": verdict_text,
    }
    return made


def _finalize(value: Any) -> Any:
    """Each text on its way into a page; markup of our own is passed on."""
    return safe(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


class Rooted:
    """Middleware: links in what is made for a request, and for a stream that it begins, have the console's root."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            _root.set(scope["root_path"])
        await self._app(scope, receive, send)


def fragment(name: str, **values: Any) -> str:
    """A template's text: a part of a page. It knows `root`, with which links begin."""
    return templates().get_template(name).render(root=_root.get(), **values)


def on_to(place: str) -> RedirectResponse:
    """303 to a page of the console's, by its path below the root."""
    return RedirectResponse(f"{_root.get()}{place}", HTTPStatus.SEE_OTHER)


def page(request: Request, name: str, *, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """A whole page. Its templates know `who` (the `SignedIn`, or None) and `path`, too."""
    known = {"who": getattr(request.state, "signed_in", None), "path": request.url.path}
    return HTMLResponse(fragment(name, **known, **values), status, HEADERS)
