"""Signing in at an identity provider: there with a state that this browser alone knows, and back with a code."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from envelope.logs import get_logger

from ...console_settings import Oidc
from ...errors import BadInput, BadSettings, OrchestratorError
from ...settings import Settings
from ..problems import told_outside
from ..tokens import Token, Tokens
from .identity import Flow, NotProved, authorization_url, claims_of
from .provider import Provider, ProviderDown
from .rendering import page
from .sign_in import TOO_MANY, admitted
from .signing import Signer, person

_log = get_logger("console")

router = APIRouter(prefix="/sign-in/oidc")

COOKIE = "muster_oidc"
# As long as somebody may take to find their second factor.
SIGN_IN_S = 600.0
MAX_TO_CHARS = 1_000
# The buckets of what the provider is asked: what it says of itself, and about codes. Nobody has it flooded by us.
BEGUN, ASKED = "sign-ins begun", "sign-ins asked about"


class NotAdmitted(OrchestratorError):
    """They are who they say, and nobody here."""


@dataclass(slots=True)
class Door:
    """One server's way in by an identity provider. `used`: states that came back, until when they would count."""

    provider: Provider
    redirect_uri: str
    used: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, settings: Settings) -> Door | None:
        """None where no provider is named."""
        oidc = settings.console.oidc
        if oidc is None:
            return None
        if not settings.public_url:
            raise BadSettings("console.oidc needs public_url", hint="say where browsers reach this server")
        return cls(Provider(oidc), f"{settings.public_url.rstrip('/')}/console/sign-in/oidc/back")

    def use(self, state: str) -> bool:
        """False for one that came back before."""
        now_s = time.time()
        while (first := next(iter(self.used), None)) is not None and self.used[first] <= now_s:
            del self.used[first]
        if state in self.used:
            return False
        self.used[state] = now_s + SIGN_IN_S
        return True


@router.get("")
async def leave(request: Request, to: str = "") -> Response:
    """303 to the provider."""
    door = _door(request)
    if not door.provider.is_known and request.app.state.rates.take(BEGUN):
        return _refused(request, TOO_MANY, HTTPStatus.TOO_MANY_REQUESTS)
    flow = Flow(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), to[:MAX_TO_CHARS])
    try:
        address = await authorization_url(door.provider, flow, redirect_uri=door.redirect_uri)
    except ProviderDown as e:
        return _failed(request, e, HTTPStatus.BAD_GATEWAY)
    answer = RedirectResponse(address, HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        _sealed(request.app.state.signer, flow),
        max_age=int(SIGN_IN_S),
        path=f"{request.scope['root_path']}/sign-in",
        httponly=True,
        samesite="lax",
        secure=door.redirect_uri.startswith("https://"),
    )
    return answer


@router.get("/back")
async def come_back(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
    """303 to where they wanted to be, signed in. Whatever comes of it, the attempt is over."""
    answer = await _arrived(request, _door(request), code, state, error)
    answer.delete_cookie(COOKIE, path=f"{request.scope['root_path']}/sign-in")
    return answer


async def _arrived(request: Request, door: Door, code: str, state: str, error: str) -> Response:
    flow = _opened(request.app.state.signer, request.cookies.get(COOKIE, ""))
    if flow is None or not hmac.compare_digest(flow.state.encode(), state.encode()) or not door.use(state):
        return _refused(request, "This sign-in was not begun here, or took too long. Begin again.")
    if request.app.state.rates.take(ASKED):
        return _refused(request, TOO_MANY, HTTPStatus.TOO_MANY_REQUESTS)
    if error or not code:
        return _refused(request, f"The identity provider let nobody in: {error[:100] or 'it sent no code'}.")
    try:
        tokens = await door.provider.tokens(code, verifier=flow.verifier, redirect_uri=door.redirect_uri)
        claims = await claims_of(door.provider, flow, tokens)
        found = await admit(door.provider.settings, claims, request.app.state.tokens)
    except (ProviderDown, BadInput) as e:
        return _failed(request, e, HTTPStatus.BAD_GATEWAY)
    except NotProved as e:
        return _failed(request, e, HTTPStatus.UNAUTHORIZED)
    except NotAdmitted as e:
        return _failed(request, e, HTTPStatus.FORBIDDEN)
    return admitted(request, found, flow.to)


async def admit(settings: Oidc, claims: Mapping[str, Any], tokens: Tokens) -> Token:
    """Whom the claims stand for here. `NotAdmitted` for who fits none of the settings' table."""
    fits = next((each for each in settings.admit if each.fits(claims)), None)
    if fits is None:
        raise NotAdmitted("You are signed in there, and nobody has let you in here", hint="ask whoever runs this fleet")
    name = claims.get(settings.name_claim)
    if settings.name_claim == "email" and claims.get("email_verified") is not True:
        raise NotAdmitted("Your address is not verified at the identity provider", hint="verify it there")
    try:
        found = person(str(name or ""), role=fits.role, tenant=fits.tenant, read_only=fits.read_only)
    except ValidationError as e:
        raise NotAdmitted(f"The claim {settings.name_claim} is no name that records can hold") from e
    if any(token.name == found.name for token in await tokens.all()):
        raise NotAdmitted(f"A token is called {found.name}, and two that are called alike are not told apart")
    return found


def _door(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


def _sealed(signer: Signer, flow: Flow) -> str:
    return signer.seal("oidc", json.dumps({**asdict(flow), "until": int(signer.clock_s() + SIGN_IN_S)}))


def _opened(signer: Signer, cookie: str) -> Flow | None:
    text = signer.unseal("oidc", cookie)
    if text is None:
        return None
    said: dict[str, Any] = json.loads(text)
    return None if said.pop("until") <= signer.clock_s() else Flow(**said)


def _failed(request: Request, error: OrchestratorError, status: HTTPStatus) -> Response:
    _log.warning("sign_in_failed", error=error.message)
    said, hint = told_outside(error)
    return _refused(request, f"{said}{f' ({hint})' if hint else ''}.", status)


def _refused(request: Request, said: str, status: HTTPStatus = HTTPStatus.UNAUTHORIZED) -> Response:
    return page(request, "sign_in.html", status=status, to="", problem=said, by_provider=True)
