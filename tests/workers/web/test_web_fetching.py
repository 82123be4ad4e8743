"""Fetching from a real server on loopback, which the policy lets pass for these tests alone."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from workers.web.errors import WebError
from workers.web.fetching import MAX_BODY_BYTES, Fetcher, Page


@dataclass
class Local:
    """Lets one port of this machine pass, and remembers what it was asked for."""

    port: int
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def allows(self, address: str, port: int) -> bool:
        self.asked.append((address, port))
        return (address, port) == ("127.0.0.1", self.port)


class Site:
    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.port = 0
        self.stopped = asyncio.Event()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        return await getattr(self, request.path.split("/")[1])(request)

    async def page(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="<p>hé", content_type="text/html", charset="iso-8859-1")

    async def big(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * (MAX_BODY_BYTES + 10), content_type="text/plain")

    async def full(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * MAX_BODY_BYTES, content_type="text/plain")

    async def bomb(self, request: web.Request) -> web.StreamResponse:
        packed = gzip.compress(b"\0" * 50_000_000)
        return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})

    async def packed(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(b"small"), headers={"Content-Encoding": "gzip"})

    async def broken(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"no gzip", headers={"Content-Encoding": "gzip"})

    async def brotli(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x", headers={"Content-Encoding": "br"})

    async def missing(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=404)

    async def slow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self.stopped.wait()
        return response

    async def to(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": request.query["url"]})

    async def hops(self, request: web.Request) -> web.StreamResponse:
        left = int(request.path.split("/")[2])
        return web.Response(status=307, headers={"Location": f"/hops/{left - 1}" if left else "/page"})

    async def challenge(self, request: web.Request) -> web.StreamResponse:
        if request.headers["User-Agent"].startswith("Mozilla"):
            return web.Response(status=403, headers={"cf-mitigated": "challenge"})
        return web.Response(text="welcome")

    async def cookie(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/page", "Set-Cookie": "id=1; Path=/"})


@pytest.fixture
async def site(serve_pages) -> AsyncIterator[Site]:
    site = Site()
    site.port = await serve_pages(site.answer)
    yield site
    site.stopped.set()


def anywhere(url: str) -> None:
    """Every redirect is followed."""


async def fetch(site: Site, url: str, **options) -> Page:
    options = {"accept": "text/html", "timeout_s": 20.0, **options}
    return await Fetcher(anywhere, Local(site.port)).fetch(url, **options)


async def test_a_page_comes_with_its_type_and_nothing_of_ours_but_the_request(site: Site):
    page = await fetch(site, site.url("page"))

    assert page == Page(site.url("page"), "text/html", "iso-8859-1", "<p>hé".encode("latin-1"))
    named = {name.lower() for name in site.requests[0].headers}
    assert named == {"host", "user-agent", "accept", "accept-encoding", "connection"}


async def test_a_name_is_resolved_once_and_its_checked_address_is_connected_to(site: Site):
    policy = Local(site.port)
    await Fetcher(anywhere, policy).fetch(site.url("page", "localhost"), accept="*/*", timeout_s=20)

    assert ("127.0.0.1", site.port) in policy.asked
    assert len(policy.asked) == len(set(policy.asked))
    assert site.requests[0].host == f"localhost:{site.port}"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "localhost.", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "127.1", "0x7f000001",
     "0x7f.1", "0177.0.0.1", "0", "[::]", "[fe80::1%25lo]", "127。0。0。1"],
)  # fmt: skip
async def test_no_spelling_of_this_machine_is_reached_by_default(site: Site, host: str):
    with pytest.raises(WebError):
        await Fetcher(anywhere).fetch(site.url("page", host), accept="*/*", timeout_s=20)

    assert site.requests == []


async def test_a_refused_address_says_what_would_work(site: Site):
    with pytest.raises(WebError, match="only public addresses"):
        await Fetcher(anywhere).fetch(site.url("page"), accept="*/*", timeout_s=20)


@pytest.mark.parametrize(("hops", "requests"), [(1, 3), (4, 6)])
async def test_redirects_are_followed(site: Site, hops: int, requests: int):
    assert (await fetch(site, site.url(f"hops/{hops}"))).url == site.url("page")
    assert len(site.requests) == requests


async def test_too_many_redirects_end(site: Site):
    with pytest.raises(WebError, match="more than 5 redirects"):
        await fetch(site, site.url("hops/99"))

    assert len(site.requests) == 6


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.2/", "http://localhost:1/", "http://169.254.169.254/latest/", "file:///etc/passwd", "gopher://h/",
     "http://user:pass@127.0.0.1/", "http://[::1]/"],
)  # fmt: skip
async def test_a_redirect_to_where_a_url_may_not_lead_is_refused(site: Site, url: str):
    with pytest.raises(WebError):
        await fetch(site, site.url(f"to?url={url}"))

    assert len(site.requests) == 1


async def test_where_a_redirect_leads_is_asked_before_it_is_followed(site: Site):
    asked: list[str] = []

    def refuse(url: str) -> None:
        asked.append(url)
        raise WebError("not there")

    with pytest.raises(WebError, match="not there"):
        await Fetcher(refuse, Local(site.port)).fetch(site.url("hops/0"), accept="*/*", timeout_s=20)

    assert asked == [site.url("page")]
    assert len(site.requests) == 1


async def test_no_cookie_is_kept(site: Site):
    await fetch(site, site.url("cookie"))

    assert "Cookie" not in site.requests[1].headers


@pytest.mark.parametrize(
    ("path", "size_bytes", "is_cut"),
    [
        ("big", MAX_BODY_BYTES, True),
        ("full", MAX_BODY_BYTES, False),
        ("bomb", MAX_BODY_BYTES, True),
        ("packed", 5, False),
    ],
)
async def test_a_body_is_cut_at_its_limit_packed_or_not(site: Site, path: str, size_bytes: int, is_cut: bool):
    page = await fetch(site, site.url(path))

    assert (len(page.body), page.is_cut) == (size_bytes, is_cut)


@pytest.mark.parametrize(
    ("path", "said"), [("missing", "404 Not Found"), ("broken", "cannot be fetched"), ("brotli", "not asked for")]
)
async def test_what_comes_to_nothing_says_why(site: Site, path: str, said: str):
    with pytest.raises(WebError, match=said):
        await fetch(site, site.url(path))


async def test_a_slow_page_ends_with_its_time(site: Site):
    with pytest.raises(WebError, match=r"within 0\.2 s"):
        await fetch(site, site.url("slow"), timeout_s=0.2)


async def test_a_server_that_is_not_there_is_told(site: Site):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebError, match="cannot be fetched"):
        await Fetcher(anywhere, Local(port)).fetch(f"http://127.0.0.1:{port}/", accept="*/*", timeout_s=20)


async def test_a_host_that_does_not_exist_is_told(site: Site):
    with pytest.raises(WebError, match="cannot be resolved"):
        await fetch(site, "http://nowhere.invalid/")


async def test_a_challenge_to_browsers_is_answered_by_our_own_name(site: Site):
    assert (await fetch(site, site.url("challenge"))).body == b"welcome"
    assert [request.headers["User-Agent"] for request in site.requests] == [
        "Mozilla/5.0 (compatible; Muster)",
        "Muster",
    ]
