"""Pages from templates. What models and repositories wrote is text in all of them: escaped, and without orders to
browsers or terminals."""

from __future__ import annotations

import unicodedata
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...gating.told import gate_name, verdict_text
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
_UNSEEN = ("Cc", "Cf", "Co", "Cs")


def safe(text: object) -> str:
    """What people see is what is there: a character that is not seen, or turns others round, is shown as one.

    >>> safe("a\\u202eb\\x1b[2Jc\\n")
    'a\\ufffdb\\ufffd[2Jc\\n'
    """
    lines = str(text).replace("\r\n", "\n").split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_seen, line)) for line in lines)


def _seen(char: str) -> str:
    return char if char == "\t" or unicodedata.category(char) not in _UNSEEN else "\ufffd"


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


def fragment(name: str, **values: Any) -> str:
    """A template's text: a part of a page."""
    return templates().get_template(name).render(**values)


def page(request: Request, name: str, *, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """A whole page. Its templates know `who` (the `SignedIn`, or None), `path` and `root`."""
    known = {
        "who": getattr(request.state, "signed_in", None),
        "root": request.scope["root_path"],
        "path": request.url.path,
    }
    return HTMLResponse(fragment(name, **known, **values), status, HEADERS)
