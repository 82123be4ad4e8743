"""Who is calling, by their token, and whether they may do that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from transport.blobs.owners import EVERYBODY

from ..client import Muster
from .caller import Caller
from .problems import Problem
from .rates import Rates
from .tokens import Right, Token, Tokens

_bearer = HTTPBearer(auto_error=False, description="A token of `muster token create`.")
_CALLER = "muster.caller"


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


def caller_of(token: Token, request: Request, door: str = "api") -> Caller:
    """Who has the token, with the fleet as far as that lets them change it, and store things there."""
    muster: Muster = request.app.state.muster
    if token.read_only:
        muster = muster.read_only()
    caller = Caller(token, muster, door)
    uploads, looks = muster.transport.uploads, caller.only_looks

    async def charge(size_bytes: int) -> None:
        await uploads.take(caller.tenant, size_bytes, looks=looks)

    reads = caller.seen_tenant or EVERYBODY
    return replace(caller, muster=muster.counting(charge, tenant=caller.tenant, reads=reads))


@dataclass(frozen=True, slots=True)
class CallerWith:
    """A dependency: the caller, who must have the right. 401 without a good token, 403 without the right."""

    right: Right

    async def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Caller:
        return await self.admitted(request)

    async def admitted(self, request: Request) -> Caller:
        """Once for each request, whoever asks first: the route, before it reads a body, or the framework, after it."""
        if (known := request.scope.get(_CALLER)) is not None:
            return known
        credentials = await _bearer(request)
        token = await admitted(request, credentials.credentials if credentials else "")
        if not token.may(self.right):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"the role {token.role} may not {self.right}",
                hint="ask an operator for a token with another role",
            )
        request.scope[_CALLER] = caller = caller_of(token, request)
        return caller


Viewer = Annotated[Caller, Depends(CallerWith(Right.SEE))]
Submitter = Annotated[Caller, Depends(CallerWith(Right.SUBMIT))]
Approver = Annotated[Caller, Depends(CallerWith(Right.APPROVE))]
Publisher = Annotated[Caller, Depends(CallerWith(Right.PUBLISH))]
Operator = Annotated[Caller, Depends(CallerWith(Right.OPERATE))]
