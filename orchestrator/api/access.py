"""Who is calling, by their token, and whether they may do that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ..client import Muster
from .caller import Caller
from .problems import Problem
from .rates import Rates
from .tokens import Right, Token, Tokens

_bearer = HTTPBearer(auto_error=False, description="A token of `muster token create`.")


async def admitted(request: Request, secret: str) -> Token:
    """Whose token it is. `Problem` without a good one, and for one that calls too often."""
    tokens: Tokens = request.app.state.tokens
    rates: Rates = request.app.state.rates
    token = await tokens.find(secret) if secret else None
    if token is None:
        raise Problem(HTTPStatus.UNAUTHORIZED, "a token is needed", hint="Authorization: Bearer TOKEN")
    if wait_s := rates.take(token.name):
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS, "too many calls with this token", hint="come again", retry_after_s=wait_s
        )
    return token


def fleet_for(token: Token, request: Request) -> Muster:
    """The server's fleet, as far as the token lets somebody change it."""
    muster: Muster = request.app.state.muster
    return muster.read_only() if token.read_only else muster


def caller_with(right: Right) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, who must have the right. 401 without a good token, 403 without the right."""

    async def check(
        request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Caller:
        token = await admitted(request, credentials.credentials if credentials else "")
        if not token.may(right):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"the role {token.role} may not {right}",
                hint="ask an operator for a token with another role",
            )
        return Caller(token, fleet_for(token, request))

    return check


Viewer = Annotated[Caller, Depends(caller_with(Right.SEE))]
Submitter = Annotated[Caller, Depends(caller_with(Right.SUBMIT))]
Approver = Annotated[Caller, Depends(caller_with(Right.APPROVE))]
Publisher = Annotated[Caller, Depends(caller_with(Right.PUBLISH))]
Operator = Annotated[Caller, Depends(caller_with(Right.OPERATE))]
