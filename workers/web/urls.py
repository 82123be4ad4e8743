"""URLs as a fetch and a permission see them: one spelling for both. Pure."""

from __future__ import annotations

import re

from yarl import URL

from .errors import WebError

MAX_URL_CHARS = 4096
# Readers of URLs differ over these, and a difference between who checks and who connects is a hole.
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[a-z0-9._:-]+")  # as it is looked up: names in other letters are encoded by now


def parse_url(text: str) -> URL:
    """An http or https URL without credentials and without its fragment; `WebError` says what is wrong with it.

    >>> str(parse_url("HTTPS://Docs.Example.com:443/a/../b?q=1#part"))
    'https://docs.example.com/b?q=1'
    """
    if len(text) > MAX_URL_CHARS:
        raise WebError(f"the URL is longer than {MAX_URL_CHARS} characters")
    if _ODD.search(text.strip()):
        raise WebError(f"{text!r} has a blank, a backslash or a control character in it; write them percent-encoded")
    try:
        url = URL(text.strip())
        host, port = url.raw_host, url.port
    except ValueError as e:
        raise WebError(f"{text!r} is no URL: {e}") from e
    if url.scheme not in ("http", "https"):
        raise WebError(f"{text!r} is no http or https URL; write it in full, such as https://example.com/page")
    if not _HOST.fullmatch(host or "") or not port:
        raise WebError(f"{text!r} names no host")
    if url.user is not None or url.password is not None:
        raise WebError("a URL with a user name or a password in it is not fetched; use one without")
    return URL(f"{url.origin()}{url.raw_path_qs}", encoded=True)  # with the slash of an empty path


def join_url(base: URL, location: str) -> URL:
    """Where a redirect or a link leads to, from the page `base`."""
    if len(location) > MAX_URL_CHARS or _ODD.search(location.strip()):
        raise WebError("it leads to something that is no URL")
    try:
        return parse_url(str(base.join(URL(location.strip()))))
    except ValueError as e:
        raise WebError(f"it leads to {location!r}, which is no URL: {e}") from e
