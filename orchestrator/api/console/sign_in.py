"""Signing in with a token, and out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from ...client import Muster
from ..tokens import Token, Tokens
from .rendering import on_to, page
from .signing import SIGNED_IN_S, Signer
from .visitor import COOKIE, Viewer, require_same_site

router = APIRouter()

# The bucket of all attempts that fail. Those that succeed take nothing from it: else anybody could keep everybody out.
FAILURES = "sign-in failures"
TOO_MANY = "Too many attempts. Wait a moment and try again."


@router.get("/sign-in")
async def ask(request: Request, to: str = "") -> Response:
    return page(request, "sign_in.html", to=to, problem="", by_provider=_by_provider(request))


@router.post("/sign-in")
async def sign_in(request: Request, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "") -> Response:
    """303 to where they wanted to be."""
    require_same_site(request)  # or a page elsewhere could have somebody work, unknowing, in another's name
    tokens: Tokens = request.app.state.tokens
    found = await tokens.find(token.strip())
    if found is not None:
        return admitted(request, found, to)
    if request.app.state.rates.take(FAILURES):
        return _refused(request, to, TOO_MANY, HTTPStatus.TOO_MANY_REQUESTS)
    return _refused(request, to, "No token is like that. It may have been revoked.", HTTPStatus.UNAUTHORIZED)


def _refused(request: Request, to: str, problem: str, status: HTTPStatus) -> Response:
    by_provider = _by_provider(request)
    return page(request, "sign_in.html", status=status, to=to, problem=problem, by_provider=by_provider)


def _by_provider(request: Request) -> bool:
    """Is there a provider of identities where people can sign in, too?"""
    return request.app.state.door is not None


def admitted(request: Request, token: Token, to: str) -> Response:
    """On to `to`, if that is a place of the console's, with the cookie that says who they are."""
    signer: Signer = request.app.state.signer
    muster: Muster = request.app.state.muster
    root = request.scope["root_path"]
    answer = RedirectResponse(_inside(root, to), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        signer.cookie(token),
        max_age=int(SIGNED_IN_S),
        path=root,
        httponly=True,
        samesite="lax",
        secure="https" in (request.url.scheme, urlsplit(muster.settings.public_url).scheme),
    )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, caller: Viewer) -> Response:
    signer: Signer = request.app.state.signer
    await signer.sign_out(request.cookies.get(COOKIE, ""))
    answer = on_to("/sign-in")
    answer.delete_cookie(COOKIE, path=request.scope["root_path"])
    return answer


def _inside(root: str, to: str) -> str:
    """
    >>> _inside("/console", "/console/asks"), _inside("/console", "//evil.test/console/"), _inside("/console", "")
    ('/console/asks', '/console/', '/console/')
    """
    return to if to.startswith(f"{root}/") and "\\" not in to else f"{root}/"
