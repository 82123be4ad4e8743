"""The application: routes, limits, errors. No CORS headers: a browser's page of another origin gets nothing."""

from __future__ import annotations

from http import HTTPStatus
from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse

from ..client import Muster
from . import (
    asks,
    audit,
    batches,
    blobs,
    budgets,
    fanouts,
    fleet,
    letters,
    linked,
    publications,
    sessions,
    tasks,
    traces,
)
from .bodies import BodyCap
from .console.app import create_console
from .documents import places
from .headers import Defaults
from .mcp import add_mcp
from .prefix import Prefixed, prefix_of
from .problems import PROBLEMS, add_problems
from .rates import Rates
from .reading import Reading
from .spooling import Spool
from .streams import Streams
from .tokens import Tokens
from .tracing import Continued


def create_app(muster: Muster, rates: Rates | None = None) -> FastAPI:
    """For one fleet. Everything but health needs a token; see `tokens.PERMITS` for who may do what."""
    app = FastAPI(title="Muster", version=version("muster"), docs_url=None, redoc_url=None, responses=PROBLEMS)
    app.router.redirect_slashes = False  # it would send on to wherever the header `Host` says
    tokens = Tokens(muster.transport.registry)
    app.state.muster, app.state.tokens, app.state.rates = muster, tokens, rates or Rates()
    app.state.streams, app.state.reading, app.state.spool = Streams(), Reading(), Spool()
    app.state.batch_places = places()
    for routes in (
        tasks,
        fanouts,
        batches,
        publications,
        sessions,
        blobs,
        traces,
        budgets,
        asks,
        linked,
        audit,
        letters,
        fleet,
    ):
        app.include_router(routes.router)
    console = create_console(muster, tokens, app.state.rates, app.state.streams, app.state.batch_places)
    console.state.spool = app.state.spool
    app.mount("/console", console)
    for short in ("/", "/console"):  # which is what people type, and no page of what is mounted there
        app.add_api_route(short, _to_console, include_in_schema=False)
    app.add_middleware(BodyCap)
    app.add_middleware(Continued)
    app.add_middleware(Defaults)  # of what the others answer, too
    app.add_middleware(Prefixed, prefix=prefix_of(muster.settings))
    add_problems(app)
    add_mcp(app)
    return app


async def _to_console(request: Request) -> RedirectResponse:
    """For people who typed the address alone."""
    return RedirectResponse(f"{request.scope['root_path']}/console/", HTTPStatus.SEE_OTHER)
