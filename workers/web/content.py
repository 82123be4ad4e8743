"""What a model gets to read of a page. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Literal

from .errors import WebError
from .fetching import Page
from .markdown import to_markdown, to_text

Format = Literal["markdown", "text", "html"]

ACCEPT: dict[Format, str] = {
    "markdown": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "text": "text/plain, text/html;q=0.9, text/markdown;q=0.8, */*;q=0.1",
    "html": "text/html, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.1",
}
HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(
    r"text/.*|.*[+/](json|xml|yaml|toml|javascript|ecmascript|x-javascript|x-yaml|x-ndjson|jsonl|x-sh|sql|graphql)"
)
# What pages are really written in. Python knows more, some of them slow, and one that runs escapes.
CHARSETS = frozenset(
    (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "shift_jis", "euc_jp", "iso2022_jp", "euc_kr"),
        *("gb2312", "gbk", "gb18030", "big5", "koi8-r", "koi8-u", *(f"iso8859-{part}" for part in range(1, 17))),
        *(f"cp125{page}" for page in range(9)),
    )
)
_META = re.compile(rb"<meta[^>]{0,200}charset\s{0,9}=\s{0,9}[\"']?([\w-]{1,40})", re.IGNORECASE)
SNIFFED_BYTES = 1024  # as browsers do


def readable(page: Page, wanted: Format) -> str:
    """The page in the format; of an image, a note of what it is. `WebError` for what is no text."""
    if page.content_type.startswith("image/") and not page.content_type.endswith("+xml"):
        more = "at least " if page.is_cut else ""
        return (
            f"({page.url} is an image: {page.content_type}, {more}{len(page.body)} bytes. Only text can be shown here.)"
        )
    if not _is_text(page):
        raise WebError(f"{page.url} is no text but {page.content_type}; only text, HTML and the like can be shown")
    text = _decoded(page)
    if page.content_type not in HTML or wanted == "html":
        return text
    return to_markdown(text, page.url) if wanted == "markdown" else to_text(text)


def _is_text(page: Page) -> bool:
    if _TEXT.fullmatch(page.content_type) or page.content_type in HTML:
        return True
    # Small servers say this of everything that they do not know.
    return page.content_type == "application/octet-stream" and b"\0" not in page.body[: 8 * SNIFFED_BYTES]


def _decoded(page: Page) -> str:
    meta = _META.search(page.body[:SNIFFED_BYTES]) if page.content_type in HTML else None
    named = page.charset or (meta[1].decode("ascii", "replace") if meta else "")
    try:
        known = codecs.lookup(named).name if named else "utf-8"
    except (LookupError, ValueError):
        known = "utf-8"
    # A mark at the beginning is no part of the text.
    return page.body.decode(known if known in CHARSETS else "utf-8", "replace").removeprefix("\ufeff")
