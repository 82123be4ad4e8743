"""What OpenID Connect demands of an authorization request and of an ID token."""

# authlib's functions say nothing of their types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from ...console_settings import Oidc
from ...errors import OrchestratorError
from .provider import Provider

# Keys that a provider has and publishes one half of. No `none`, and no HMAC: its key would be one that all know.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
CLOCKS_DIFFER_S = 60


class NotProved(OrchestratorError):
    """The ID token is not what it should be."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one attempt to sign in is known by: to the provider by `state`, in the token by `nonce`."""

    state: str
    nonce: str
    verifier: str
    to: str


async def authorization_url(provider: Provider, flow: Flow, *, redirect_uri: str) -> str:
    """Where the browser is sent: the code flow with PKCE, whose verifier stays here."""
    settings, metadata = provider.settings, await provider.metadata()
    return prepare_grant_uri(
        metadata["authorization_endpoint"],
        settings.client_id,
        "code",
        redirect_uri,
        " ".join(settings.scopes),
        flow.state,
        nonce=flow.nonce,
        code_challenge=create_s256_code_challenge(flow.verifier),
        code_challenge_method="S256",
    )


async def claims_of(provider: Provider, flow: Flow, tokens: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the ID token says, once all of it is proved. `NotProved` says only which part is not."""
    told = tokens.get("id_token")
    if not isinstance(told, str):
        raise NotProved("the identity provider gave no ID token")
    try:
        token = await _decoded(provider, told)
        claims = CodeIDToken(
            token.claims,
            token.header,
            options=_expected(provider.settings),
            params={"nonce": flow.nonce, "client_id": provider.settings.client_id, **_access(tokens)},
        )
        claims.validate(leeway=CLOCKS_DIFFER_S)
    except (JoseError, ValueError, TypeError) as e:
        raise NotProved(f"the ID token does not hold: {getattr(e, 'error', '') or type(e).__name__}") from e
    return dict(claims)


async def _decoded(provider: Provider, told: str) -> jwt.Token:
    """With the provider's keys; an unknown one may be new, and then they are fetched anew, once."""
    try:
        return jwt.decode(told, _keys(await provider.keys()), algorithms=ALGORITHMS)
    except (InvalidKeyIdError, ValueError):
        return jwt.decode(told, _keys(await provider.keys(anew=True)), algorithms=ALGORITHMS)


def _keys(found: Mapping[str, Any]) -> KeySet:
    """Those for signatures that anybody may check."""
    keys = [each for each in found.get("keys", ()) if each.get("kty") in ("RSA", "EC") and each.get("use") != "enc"]
    return KeySet.import_key_set({"keys": keys})


def _expected(settings: Oidc) -> dict[str, Any]:
    return {
        "iss": {"essential": True, "value": settings.issuer},
        "aud": {"essential": True, "value": settings.client_id},
        "exp": {"essential": True},
        "nonce": {"essential": True},
    }


def _access(tokens: Mapping[str, Any]) -> dict[str, str]:
    access = tokens.get("access_token")
    return {"access_token": access} if isinstance(access, str) else {}
