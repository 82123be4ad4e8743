"""Fetching one page, for somebody who must not reach everything.

Every connection goes through the egress proxy (see `tunnel.py`), which resolves a name once and connects to an address
that passed the policy: a name that changes its mind gains nothing. Every redirect starts from the beginning, and asks.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from yarl import URL

from .addresses import PUBLIC, AddressPolicy
from .errors import WebError
from .tunnel import session_for
from .urls import join_url, parse_url

MAX_BODY_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Sites serve a browser what they refuse a program; the second name is for those that want to know who is there.
AGENTS = ("Mozilla/5.0 (compatible; Muster)", "Muster")
GZIP_WBITS = zlib.MAX_WBITS | 16


@dataclass(frozen=True, slots=True)
class Page:
    """What came from `url`, after redirects. `is_cut`: there was more than `MAX_BODY_BYTES`."""

    url: str
    content_type: str  # without parameters, lower case
    charset: str
    body: bytes
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Fetcher:
    """`require` is called with each URL that a redirect leads to, before it is asked; it raises to refuse it."""

    require: Callable[[str], None]
    policy: AddressPolicy = PUBLIC

    async def fetch(self, text: str, *, accept: str, timeout_s: float) -> Page:
        """The page at a URL, within the time; `WebError` when there is none for us."""
        url = parse_url(text)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(url, accept)
        except TimeoutError as e:
            raise WebError(f"{url.host} sent no whole page within {timeout_s:g} s") from e
        except (aiohttp.ClientError, OSError, ValueError, zlib.error) as e:
            raise WebError(f"{url} cannot be fetched: {str(e) or type(e).__name__}") from e

    async def _follow(self, url: URL, accept: str) -> Page:
        for _ in range(MAX_REDIRECTS + 1):
            found = await self._ask(url, accept)
            if isinstance(found, Page):
                return found
            url = found
            self.require(str(url))
        raise WebError(f"there were more than {MAX_REDIRECTS} redirects; the last one led to {url}")

    async def _ask(self, url: URL, accept: str) -> Page | URL:
        """The page, or where it says that it is."""
        async with session_for(url, self.policy) as session:
            for agent in AGENTS:
                headers = {"User-Agent": agent, "Accept": accept, "Accept-Encoding": "gzip"}
                async with session.get(url, headers=headers, allow_redirects=False) as response:
                    if _is_challenge(response.status, response.headers) and agent is not AGENTS[-1]:
                        continue
                    return await _read(url, response)
        raise AssertionError("the last agent's answer is taken")


def _is_challenge(status: int, headers: Mapping[str, str]) -> bool:
    return status == HTTPStatus.FORBIDDEN and headers.get("cf-mitigated") == "challenge"


async def _read(url: URL, response: aiohttp.ClientResponse) -> Page | URL:
    if response.status in REDIRECTS and (location := response.headers.get("Location")):
        return join_url(url, location)
    if not response.ok:
        raise WebError(f"{url} answered {response.status} {response.reason or ''}".rstrip())
    body, is_cut = await _body(response)
    return Page(str(url), response.content_type.lower(), response.charset or "", body, is_cut)


async def _body(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """What is there, unpacked, up to the limit: a small answer may unpack to anything, so it never does so at once."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise WebError(f"the server packs its pages as {encoding!r}, which was not asked for")
    unpacker = zlib.decompressobj(GZIP_WBITS) if encoding == "gzip" else None
    body = bytearray()
    async for chunk in response.content.iter_any():
        room = MAX_BODY_BYTES + 1 - len(body)
        body += unpacker.decompress(chunk, room) if unpacker else chunk[:room]
        if len(body) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), True
    return bytes(body), False
