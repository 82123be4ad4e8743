"""The console as an application of its own, mounted below the API's: its errors are pages, its callers have cookies."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from envelope.errors import MusterError
from envelope.logs import get_logger
from repo.errors import RepoError

from ...client import Muster
from ...errors import BadSettings
from ...session.past import Pasts
from ...settings import Settings
from ..problems import status_of, told_outside
from ..rates import Rates
from ..streams import Streams
from ..tokens import Tokens
from . import asks, batches, deeds, fleet, letters, publish, sign_in, start, tasks, traces
from .forms import PlainForms
from .rendering import HERE, Rooted, on_to, page
from .rooms import Rooms
from .signing import signer_of
from .visitor import SignInNeeded

_log = get_logger("console")

ROUTERS: Sequence[APIRouter] = (
    sign_in.router,
    fleet.router,
    traces.router,
    tasks.router,
    deeds.router,
    letters.router,
    start.router,
    asks.router,
    batches.router,
    publish.router,
)


def create_console(
    muster: Muster, tokens: Tokens, rates: Rates, streams: Streams, places: Mapping[str, asyncio.Semaphore]
) -> FastAPI:
    """For one fleet. `rates`, `streams` and `places` to fetch in are shared with the API: a token has one allowance."""
    app = FastAPI(title="Muster console", openapi_url=None, docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False
    app.state.muster, app.state.tokens, app.state.rates, app.state.streams = muster, tokens, rates, streams
    app.state.signer = signer_of(muster.settings.state_dir, tokens, muster.settings.console.oidc)
    app.state.rooms, app.state.fetch_places, app.state.fleets = Rooms(), places, fleet.Kept()
    app.state.pasts = Pasts(muster.transport)
    for router in ROUTERS:
        app.include_router(router)
    app.state.door = _door(app, muster.settings)
    app.mount("/static", StaticFiles(directory=HERE / "static"))
    app.add_middleware(PlainForms)
    app.add_middleware(Rooted)
    app.add_exception_handler(SignInNeeded, _to_sign_in)
    app.add_exception_handler(MusterError, _problem)
    app.add_exception_handler(RepoError, _problem)
    app.add_exception_handler(RequestValidationError, _wrong_form)
    app.add_exception_handler(HTTPException, _no_page)
    app.add_exception_handler(Exception, _unforeseen)
    return app


def _door(app: FastAPI, settings: Settings) -> object:
    """The way in by an identity provider, where one is named. Its libraries are imported for nobody else."""
    if settings.console.oidc is None:
        return None
    try:
        from . import oidc
    except ModuleNotFoundError as e:
        hint = "pip install 'muster[oidc]', or take [console.oidc] out of the settings"
        raise BadSettings(f"console.oidc needs {e.name}, which is not installed", hint=hint) from e
    app.include_router(oidc.router)
    return oidc.Door.of(settings)


async def _to_sign_in(request: Request, _: Exception) -> Response:
    """A page is left for the sign-in and found again after it; a form or stream is only refused."""
    if request.method != "GET" or "text/event-stream" in request.headers.get("accept", ""):
        return _told(request, HTTPStatus.UNAUTHORIZED, "You are not signed in any more.", "sign in and do it again")
    to = quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
    return on_to(f"/sign-in?to={to}")


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, MusterError | RepoError)
    answer = _told(request, status_of(error), *told_outside(error))
    if wait_s := getattr(error, "retry_after_s", 0):
        answer.headers["Retry-After"] = str(math.ceil(wait_s))
    return answer


async def _wrong_form(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    said = f"{fault['loc'][-1]}: {str(fault['msg']).removeprefix('Value error, ')}"
    return _told(request, HTTPStatus.UNPROCESSABLE_ENTITY, said, "go back and change it")


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(request, HTTPStatus(error.status_code), f"{str(error.detail).rstrip('.')}.", "")


async def _unforeseen(request: Request, error: Exception) -> Response:
    _log.error("console_failed", path=request.url.path, error=type(error).__name__)
    said = "Something unforeseen happened."
    return _told(request, HTTPStatus.INTERNAL_SERVER_ERROR, said, "it is in the server's log")


def _told(request: Request, status: HTTPStatus, title: str, hint: str) -> Response:
    return page(request, "problem.html", status=status, title=title, hint=hint, code=int(status))
