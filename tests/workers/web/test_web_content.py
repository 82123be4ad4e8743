"""What a model reads of a page, by its type and its characters."""

from __future__ import annotations

import pytest

from workers.web.content import readable
from workers.web.errors import WebError
from workers.web.fetching import Page


def page(body: str | bytes, content_type: str = "text/html", charset: str = "", *, is_cut: bool = False) -> Page:
    return Page("https://h/p", content_type, charset, body if isinstance(body, bytes) else body.encode(), is_cut)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [("markdown", "**a** [b](https://h/b)"), ("text", "a b"), ("html", "<b>a</b> <a href=b>b</a>")],
)
def test_html_is_shown_in_the_format(wanted, text):
    assert readable(page("<b>a</b> <a href=b>b</a>"), wanted) == text


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/markdown", "application/json", "application/ld+json", "application/xml", "text/javascript",
     "application/javascript", "image/svg+xml", "application/yaml", "application/octet-stream"],
)  # fmt: skip
@pytest.mark.parametrize("wanted", ["markdown", "text", "html"])
def test_other_texts_are_shown_as_they_are(content_type, wanted):
    assert readable(page("<b> &amp;", content_type), wanted) == "<b> &amp;"


def test_an_image_is_a_note():
    note = readable(page(b"\x89PNG\0", "image/png"), "markdown")

    assert "https://h/p is an image: image/png, 5 bytes" in note
    assert "at least 5 bytes" in readable(page(b"\x89PNG\0", "image/png", is_cut=True), "markdown")


@pytest.mark.parametrize(
    "content_type", ["application/pdf", "application/zip", "audio/mpeg", "application/octet-stream"]
)
def test_what_is_no_text_is_refused_by_its_type(content_type):
    with pytest.raises(WebError, match=content_type):
        readable(page(b"%PDF\0", content_type), "markdown")


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("é".encode(), "", "é"),
        ("é".encode(), "utf-8", "é"),
        ("\ufeffé".encode(), "UTF8", "é"),
        ("é".encode("latin-1"), "ISO-8859-1", "é"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("é".encode("utf-16"), "utf-16", "é"),
        (b"\xff", "", "\ufffd"),
        (b"a", "no-such-charset", "a"),
        (b"a\0", "a\0b", "a\0"),
        (rb"\x41", "unicode_escape", r"\x41"),
        (b"a", "idna", "a"),
        (b"a", "zlib", "a"),
        (b'<meta charset="windows-1252">\x80', "", '<meta charset="windows-1252">€'),
    ],
)
def test_characters_are_read_as_the_page_says_if_that_is_a_way_to_write_pages(body, charset, text):
    assert readable(page(body, "text/html", charset), "html") == text
