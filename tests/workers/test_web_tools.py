"""The web tools of a real worker: through the egress proxy, to real servers on loopback that the operator allows."""

from __future__ import annotations

import datetime
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from envelope.messages import ContextRef, TaskInput
from workers.settings import WorkerSettings
from workers.web.access import WithOwn
from workers.web.addresses import ANY
from workers.web.errors import WebError
from workers.web.fetching import Fetcher
from workers.web.tunnel import session_for
from workers.web.urls import parse_url


class Site:
    """Pages and a search service; `requests` are paths with their queries, `keys` what they came with."""

    def __init__(self) -> None:
        self.root = ""
        self.requests: list[str] = []
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        self.keys.append(request.headers.get("X-Key"))
        match request.path:
            case "/search":
                return web.json_response(
                    {"results": [{"title": "Docs", "url": f"{self.root}/docs", "text": "the docs"}]}
                )
            case "/away":
                return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
            case _:
                return web.Response(text="<h1>The docs</h1>", content_type="text/html")


@pytest.fixture
async def site(serve_pages) -> Site:
    site = Site()
    site.root = f"http://127.0.0.1:{await serve_pages(site.answer)}"
    return site


@pytest.fixture
def surf(start_agents) -> Callable:
    """`await surf(calls, …)`: what an agent's calls gave in one turn, and the model's server."""

    async def run(calls: list[dict], settings: dict, **fields):
        said = " ## ".join(f"${{result.{n}}}" for n in range(len(calls)))
        rules = [{"when": {"turn": 1}, "reply": {"tool_calls": calls}}, {"reply": {"text": said}}]
        hands, server = await start_agents(json.dumps({"rules": rules}), **settings)
        result = await hands.result(
            hands.request(**{"agent": "build", "input": TaskInput(prompt="look it up"), **fields})
        )
        return result.output.text.split(" ## "), server

    return run


def place(site: Site) -> str:
    return site.root.removeprefix("http://")


def names(server) -> set[str]:
    return {tool["function"]["name"] for tool in server.log.bodies[0]["tools"]}


@pytest.mark.redis
@pytest.mark.docker
async def test_an_agent_searches_and_reads_within_its_scope(surf, site: Site):
    settings = {
        "web_private_addresses": {place(site)},
        "search_url": f"{site.root}/search?q={{query}}&n={{count}}",
        "search_api_key": "a-key-for-searching",
        "search_key_header": "X-Key",
    }
    calls = [
        {"name": "websearch", "arguments": {"query": "the docs", "numResults": 3}},
        {"name": "webfetch", "arguments": {"url": f"{site.root}/docs"}},
        {"name": "webfetch", "arguments": {"url": f"{site.root}/other"}},
    ]

    [found, page, outside], server = await surf(
        calls, settings, auth_scope=("websearch:**", f"webfetch:{site.root}/docs*")
    )

    assert found == f"1. Docs\n{site.root}/docs\nthe docs"
    assert page == f"<url>{site.root}/docs</url>\n# The docs"
    assert "outside this task's scope" in outside
    assert sorted(site.requests) == ["/docs", "/search?q=the%20docs&n=3"]
    assert set(site.keys) == {"a-key-for-searching", None}
    assert names(server) == {"webfetch", "websearch"}


@pytest.mark.redis
@pytest.mark.docker
async def test_nothing_private_is_reached_unless_the_operator_says_so(surf, site: Site):
    urls = [f"{site.root}/docs", "http://169.254.169.254/latest/meta-data/", "http://localhost:6379/"]
    calls = [{"name": "webfetch", "arguments": {"url": url}} for url in urls]

    texts, server = await surf(calls, {}, auth_scope=("*:**",))

    assert all("only public addresses" in said for said in texts)
    assert site.requests == []
    assert "websearch" not in names(server)


@pytest.mark.redis
@pytest.mark.docker
async def test_the_operators_own_network_is_not_for_other_tenants(surf, site: Site):
    calls = [
        {"name": "webfetch", "arguments": {"url": f"{site.root}/docs"}},
        {"name": "read", "arguments": {"ref": f"doc:{site.root}/docs"}},
    ]

    about = (ContextRef(type="doc", id=f"{site.root}/docs"),)
    settings = {"web_private_addresses": {place(site)}}
    texts, _ = await surf(calls, settings, auth_scope=("*:**",), tenant="elsewhere", context_refs=about)

    assert site.requests == []
    assert all("only public addresses" in said for said in texts), texts


@pytest.mark.redis
@pytest.mark.docker
async def test_a_redirect_from_an_allowed_place_leads_no_further_than_another_url(surf, site: Site):
    calls = [{"name": "webfetch", "arguments": {"url": f"{site.root}/away"}}]

    [said], _ = await surf(calls, {"web_private_addresses": {place(site)}}, auth_scope=("*:**",))

    assert "169.254.169.254:80" in said and "only public addresses" in said
    assert site.requests == ["/away"]


@pytest.mark.redis
@pytest.mark.docker
async def test_without_a_grant_the_tools_are_not_there(surf):
    [said], server = await surf([{"name": "webfetch", "arguments": {"url": "https://h/"}}], {}, auth_scope=("read:**",))

    assert "there is no tool 'webfetch'" in said
    assert names(server) == {"read"}


@pytest.mark.redis
@pytest.mark.docker
async def test_a_page_that_the_request_refers_to_is_read_by_the_rules_for_pages(surf, site: Site):
    calls = [{"name": "read", "arguments": {"ref": f"doc:{site.root}/{path}"}} for path in ("docs", "secret")]

    [page, secret], _ = await surf(
        calls,
        {"web_private_addresses": {place(site)}},
        auth_scope=("read:**", f"webfetch:{site.root}/docs"),
        context_refs=(ContextRef(type="doc", id=f"{site.root}/docs"),),
    )

    assert "# The docs" in page
    assert "outside this task's scope" in secret
    assert site.requests == ["/docs"]


def test_only_named_addresses_of_the_own_network_are_let_through():
    policy = WithOwn(frozenset({"10.0.0.5:8080", "[fd00::5]:443"}))

    asked = [("10.0.0.5", 8080), ("fd00::5", 443), ("93.184.215.14", 443), ("10.0.0.5", 80), ("10.0.0.6", 8080)]
    assert [policy.allows(*one) for one in asked] == [True, True, True, False, False]


@pytest.mark.parametrize("url", ["https://search.example/?q=", "search.example/?q={query}"])
def test_a_search_url_that_cannot_work_is_refused_at_the_start(tmp_path: Path, url: str):
    with pytest.raises(ValueError, match="complete URL"):
        WorkerSettings(state_dir=tmp_path, search_url=url)


@pytest.fixture
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve_pages) -> str:
    """A server with a certificate for `localhost` that this process believes; its URL."""
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"hello {request.host}")

    return f"https://localhost:{await serve_pages(answer, tls=context)}/"


def self_signed(folder: Path) -> Path:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "t")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "localhost.pem"
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


def anywhere(url: str) -> None:
    """Every redirect is followed."""


async def test_the_servers_name_is_verified_through_the_proxy(secure: str):
    page = await Fetcher(anywhere, ANY).fetch(secure, accept="*/*", timeout_s=20)

    assert page.body.decode() == f"hello {secure.removeprefix('https://').rstrip('/')}"
    with pytest.raises(WebError, match="cannot be fetched"):
        await Fetcher(anywhere, ANY).fetch(secure.replace("localhost", "127.0.0.1"), accept="*/*", timeout_s=20)


async def test_a_session_reaches_the_one_host_that_it_is_for(site: Site):
    async with session_for(parse_url("http://localhost:1/"), ANY) as session:
        with pytest.raises(WebError, match="may not be reached"):
            await session.get(f"{site.root}/docs")

    assert site.requests == []
