"""An identity provider over HTTP: what it says of itself, its keys, and the tokens that it gives for a code."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote_plus

import aiohttp

from envelope.redaction import register_secret

from ...console_settings import Oidc
from ...errors import OrchestratorError

ANSWER_S = 10.0
MAX_BYTES = 256 * 1024
# Providers move endpoints seldom, and keys when they rotate them: then a key is missing, and they are fetched at once.
KNOWN_S = 3600.0
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderDown(OrchestratorError):
    """It does not answer, or with something else than its part."""


@dataclass(slots=True)
class Provider:
    settings: Oidc
    _metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _keys: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _until_s: float = 0.0

    @property
    def is_known(self) -> bool:
        """What it says of itself need not be asked now."""
        return bool(self._metadata) and time.monotonic() < self._until_s

    async def metadata(self) -> Mapping[str, Any]:
        """`ProviderDown` also for metadata of another issuer, or with endpoints that are not its own."""
        if not self.is_known:
            address = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._ask("GET", address)
            if found.get("issuer") != self.settings.issuer:
                raise ProviderDown("what answers there is another issuer than console.oidc names")
            for name in ENDPOINTS:
                if not isinstance(found.get(name), str) or not self.settings.may_ask(found[name]):
                    raise ProviderDown(f"its {name} is elsewhere", hint="name its host in console.oidc.hosts")
            self._metadata, self._until_s, self._keys = found, time.monotonic() + KNOWN_S, {}
        return self._metadata

    async def keys(self, *, anew: bool = False) -> Mapping[str, Any]:
        """Its public keys, as a key set in JSON."""
        metadata = await self.metadata()
        if anew or not self._keys:
            self._keys = await self._ask("GET", metadata["jwks_uri"])
        return self._keys

    async def tokens(self, code: str, *, verifier: str, redirect_uri: str) -> Mapping[str, Any]:
        """What the provider gives for a code, as it says it: nothing of it is proved yet."""
        metadata, settings = await self.metadata(), self.settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": settings.client_id,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        if secret := settings.secret():
            ways = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            if "client_secret_basic" in ways:
                basic = b64encode(f"{quote_plus(settings.client_id)}:{quote_plus(secret)}".encode()).decode()
                register_secret(basic)
                headers["Authorization"] = f"Basic {basic}"
            else:
                fields["client_secret"] = secret
        return await self._ask("POST", metadata["token_endpoint"], data=fields, headers=headers)

    async def _ask(self, method: str, address: str, **options: Any) -> Mapping[str, Any]:
        """It follows nowhere, and reads no more than a document of this kind has."""
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
                session.request(method, address, allow_redirects=False, **options) as response,
            ):
                content = await _read(response)
                if response.status != 200:
                    raise ProviderDown(f"the identity provider answered with {response.status}")
        except TimeoutError as e:
            raise ProviderDown(f"the identity provider did not answer within {ANSWER_S:g} s") from e
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise ProviderDown(f"the identity provider cannot be reached: {type(e).__name__}") from e
        return _object(content)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for some in response.content.iter_any():
        content += some
        if len(content) > MAX_BYTES:
            raise ProviderDown("the identity provider's answer has no end")
    return content


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise ProviderDown("the identity provider answered with something else than JSON") from e
    if not isinstance(found, dict):
        raise ProviderDown("the identity provider answered with something else than an object")
    return cast("dict[str, Any]", found)
