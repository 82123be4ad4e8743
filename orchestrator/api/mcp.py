"""`/mcp`: the Model Context Protocol, with the tokens, rights and limits of the API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from envelope.asks import AskTerms

from ..batch.plan import Planned
from ..client import Muster
from ..errors import BadInput
from ..mcp.tool import Call, Ground, Waits, Wanted, WantedBatch, address_of
from .access import admitted, caller_of
from .caller import Caller
from .documents import Places, planned_for
from .problems import Problem, problem
from .reading import MAX_VALUES, Reading, require_few_values
from .tasks import reachable
from .tokens import Token

if TYPE_CHECKING:
    from ..mcp.http import OverHttp

PATH = "/mcp"
_TOKEN = "muster.token"  # noqa: S105 - where an admitted request carries it
INSTALL = "whoever runs the server installs it with: pip install 'muster[mcp]'"


def add_mcp(app: FastAPI) -> None:
    """Where the library is not installed, the path says so."""
    endpoint = _Endpoint(_application(app) if find_spec("mcp") else None)
    app.router.routes.append(Route(PATH, endpoint, include_in_schema=False))
    app.router.lifespan_context = endpoint.lifespan


def _application(app: FastAPI) -> OverHttp:
    from ..mcp.http import OverHttp

    return OverHttp(_Front(app.state.batch_places))


class _Endpoint:
    def __init__(self, application: OverHttp | None) -> None:
        self._application = application

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncGenerator[None]:
        if self._application is None:
            yield
            return
        async with self._application.running():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if self._application is None:
            raise Problem(HTTPStatus.NOT_FOUND, "this server does not speak MCP", hint=INSTALL)
        if request.method != "POST":  # nothing is sent unasked, and there is no session to end
            refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, "MCP is spoken with POST here")
            refused.headers["Allow"] = "POST"
            await refused(scope, receive, send)
            return
        if not _is_own_page(request):
            raise Problem(HTTPStatus.FORBIDDEN, "a page of another origin may not call this", hint="use no browser")
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        scope[_TOKEN] = await admitted(request, secret.strip() if scheme.lower() == "bearer" else "")
        reading: Reading = request.app.state.reading
        async with reading.places[f"mcp:{scope[_TOKEN].name}"]:
            content = await Request(scope, receive).body()
        require_few_values(content, MAX_VALUES)
        await self._application(scope, _again(content, receive), send)


def _again(content: bytes, receive: Receive) -> Receive:
    """The body once more for who reads it, and then what comes of the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


def _is_own_page(request: Request) -> bool:
    """Who is no browser names no origin. A browser's page is ours at `public_url`, or where the address itself is in
    `Host`: a name there proves nothing, since whoever owns one may have it lead here (DNS rebinding)."""
    origin = request.headers.get("origin")
    if origin is None:
        return True
    muster: Muster = request.app.state.muster
    host = origin.partition("://")[2]
    if host and host == urlsplit(muster.settings.public_url).netloc:
        return True
    return host == request.headers.get("host") and _is_address(host)


def _is_address(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


class _Front:
    """Each request carries its token; a document may name what a call of the API may."""

    def __init__(self, places: Places) -> None:
        self._reach, self._waits = _Reach(places), Waits()

    def token(self, request: Request) -> Token:
        return request.scope[_TOKEN]

    async def call(self, request: Request) -> Call:
        token = self.token(request)
        return Call(caller_of(token, request, door="mcp"), self._reach, self._waits)


class _Reach:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def ground(self, caller: Caller, wanted: Wanted) -> Ground:
        """By https, with its commit, as far as a call of the API reaches: folders are the server's own."""
        if not wanted.repository:
            return Ground()
        if urlsplit(wanted.repository).scheme != "https":
            raise BadInput("the repository is no https address", hint="a server elsewhere sees no folder of yours")
        return Ground(reachable(address_of(wanted), caller))

    async def batch(self, caller: Caller, wanted: WantedBatch) -> tuple[Planned, AskTerms | None]:
        return await planned_for(caller, wanted.document.encode(), wanted.language, self._places), AskTerms()
