"""Who looks at the console, and what they may do: the rights of the API, held by a cookie."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from ...client import Muster
from ...looking import WouldWrite
from ..access import caller_of
from ..caller import Caller
from ..problems import Problem
from ..rates import Rates
from ..spooling import Spool
from ..tokens import Right
from .signing import SignedIn, Signer

COOKIE = "muster_console"
CSRF = "csrf"
# Texts of a form with files, which stand in memory; a form without files is no longer than any other body.
MAX_PARTS, MAX_PART_BYTES = 20, 256 * 1024


class SignInNeeded(Exception):
    """Nobody is signed in, or not any more."""


def visitor_with(right: Right, *, to_look: bool = False) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: who is signed in, and has the right. A form must have come from a page of ours.

    `to_look`: for a page where who only looks does so, with no form of the right's.
    """

    async def check(request: Request) -> Caller:
        known = await signed_in(request)
        if known is None:
            raise SignInNeeded
        request.state.signed_in = known
        rates: Rates = request.app.state.rates
        if wait_s := rates.take(known.token.name):
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too many calls", hint="come again", retry_after_s=wait_s)
        caller = caller_of(known.token, request, door="console")
        require_right(caller, right, to_look=to_look)
        if request.method not in ("GET", "HEAD"):
            require_same_site(request)
            spool: Spool = request.app.state.spool
            async with spool.places[f"form:{known.token.name}"]:
                await require_own_form(request, known.csrf)
        return caller

    return check


def require_right(caller: Caller, right: Right, *, to_look: bool = False) -> None:
    """403 in the words of what is missing: the role's, or that something may be changed."""
    token = caller.token
    if not token.may(right):
        hint = "ask an operator for another role"
        raise Problem(HTTPStatus.FORBIDDEN, f"the role {token.role} may not {right}", hint=hint)
    if right not in caller.rights and not to_look:
        who = "token" if token.read_only else "server"
        hint = "sign in with a token that may write" if token.read_only else "whoever runs it has it only look"
        raise WouldWrite(f"this {who} is read-only, and may not {right}", hint=hint)


async def signed_in(request: Request) -> SignedIn | None:
    signer: Signer = request.app.state.signer
    return await signer.read(request.cookies.get(COOKIE, ""))


async def require_own_form(request: Request, csrf: str) -> None:
    """403 for a form that another site's page has sent: it knows the cookie's value as little as this one."""
    is_plain = not request.headers.get("content-type", "").lower().startswith("multipart/")
    form = await (request.form() if is_plain else request.form(max_fields=MAX_PARTS, max_part_size=MAX_PART_BYTES))
    said = form.get(CSRF)
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), csrf.encode()):
        raise Problem(HTTPStatus.FORBIDDEN, "this form is not of this page", hint="load the page again")


def require_same_site(request: Request) -> None:
    """403 for what a browser says that a page of another origin sends. Who is no browser says nothing of it."""
    muster: Muster = request.app.state.muster
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site:  # of a browser on a safe connection; a proxy may have put another `Host` in place of the one that it saw
        is_ours = site in ("same-origin", "none")
    else:
        hosts = (request.headers.get("host"), urlsplit(muster.settings.public_url).netloc)
        host = (origin or "").partition("://")[2]
        is_ours = origin is None or (bool(host) and host in hosts)
    if not is_ours:
        raise Problem(HTTPStatus.FORBIDDEN, "this form is not of this page", hint="load the page again")


Viewer = Annotated[Caller, Depends(visitor_with(Right.SEE))]
Submitter = Annotated[Caller, Depends(visitor_with(Right.SUBMIT))]
Approver = Annotated[Caller, Depends(visitor_with(Right.APPROVE))]
Publisher = Annotated[Caller, Depends(visitor_with(Right.PUBLISH))]
Operator = Annotated[Caller, Depends(visitor_with(Right.OPERATE))]
Overseer = Annotated[Caller, Depends(visitor_with(Right.OPERATE, to_look=True))]
