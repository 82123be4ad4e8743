"""Signing in with a token, and out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from ..tokens import Token, TokenFile
from .rendering import page
from .signing import SIGNED_IN_S, Signer
from .visitor import COOKIE, Viewer

router = APIRouter()

FAILURES = "sign-in"  # the bucket of calls that all attempts share


@router.get("/sign-in")
async def ask(request: Request, to: str = "") -> Response:
    return page(request, "sign_in.html", to=to, problem="", by_provider=_by_provider(request))


@router.post("/sign-in")
async def sign_in(request: Request, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "") -> Response:
    """303 to where they wanted to be."""
    tokens: TokenFile = request.app.state.tokens
    if request.app.state.rates.take(FAILURES):
        said = "Too many attempts. Wait a moment and try again."
        return page(
            request,
            "sign_in.html",
            status=HTTPStatus.TOO_MANY_REQUESTS,
            to=to,
            problem=said,
            by_provider=_by_provider(request),
        )
    found = tokens.find(token.strip())
    if found is None:
        said = "No token is like that. It may have been revoked."
        return page(
            request,
            "sign_in.html",
            status=HTTPStatus.UNAUTHORIZED,
            to=to,
            problem=said,
            by_provider=_by_provider(request),
        )
    return admitted(request, found, to)


def _by_provider(request: Request) -> bool:
    """Is there a provider of identities where people can sign in, too?"""
    return request.app.state.door is not None


def admitted(request: Request, token: Token, to: str) -> Response:
    """On to `to`, if that is a place of the console's, with the cookie that says who they are."""
    signer: Signer = request.app.state.signer
    root = request.scope["root_path"]
    answer = RedirectResponse(_inside(root, to), HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        signer.cookie(token),
        max_age=int(SIGNED_IN_S),
        path=root,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, caller: Viewer) -> Response:
    answer = RedirectResponse(f"{request.scope['root_path']}/sign-in", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, path=request.scope["root_path"])
    return answer


def _inside(root: str, to: str) -> str:
    """
    >>> _inside("/console", "/console/asks"), _inside("/console", "//evil.test/console/"), _inside("/console", "")
    ('/console/asks', '/console/', '/console/')
    """
    parts = urlsplit(to)
    inside = to.startswith(f"{root}/") and not (parts.scheme or parts.netloc) and "\\" not in to
    return to if inside else f"{root}/"
