"""Signing in at an identity provider: a small real one on loopback, honest at first, then each wrong in one thing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import ValidationError

from orchestrator.client import Muster
from orchestrator.console_settings import ConsoleSettings, Oidc
from orchestrator.settings import Settings

pytestmark = pytest.mark.redis

CLIENT, SECRET = "muster", "a secret with: signs/"
PUBLIC = "http://console.test"
ADMIT = [
    {"claim": "groups", "value": "platform", "role": "admin", "tenant": "*"},
    {"claim": "groups", "value": "staff", "role": "approver", "tenant": "default"},
]


def made_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})


HS256 = {"alg": "HS256", "kid": "one"}
KEY, OTHER = made_key("one"), made_key("two")


def by_public_key(claims: dict[str, Any]) -> str:
    """The libraries refuse to make one."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (HS256, claims)]
    mac = hmac.new(KEY.as_pem(private=False), b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(mac).rstrip(b"=")]).decode()


@dataclass
class Provider:
    """Who signs in, and with what is wrong. `claims` are put over the honest ones; None takes one away."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    key: Any = field(default_factory=lambda: KEY)
    published: list[Any] = field(default_factory=lambda: [KEY])
    header: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    confused: bool = False  # it signs with its public key, as if that were a secret
    token: str | None = None  # instead of one that is signed
    asked: list[dict[str, str]] = field(default_factory=list)  # at the token endpoint
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    stop: Any = None

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        return app

    def sign_in(self, address: str) -> dict[str, str]:
        """What the browser brings back from the authorization endpoint, where somebody has just signed in."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.url}/authorize?")
        assert asked["redirect_uri"] == f"{PUBLIC}/console/sign-in/oidc/back"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_hex(8)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"]}

    async def _configuration(self, _: web.Request) -> web.Response:
        there = {name: f"{self.url}/{path}" for name, path in ENDPOINTS.items()}
        return web.json_response({"issuer": self.url, **there, **self.metadata})

    async def _keys(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [key.as_dict(private=False) for key in self.published]})

    async def _token(self, request: web.Request) -> web.Response:
        said = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append({**said, "authorization": request.headers.get("Authorization", "")})
        asked = self._codes.pop(said["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(said["code_verifier"].encode()).digest()).rstrip(b"=")
        if asked is None or challenge.decode() != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        honest = {"iss": self.url, "sub": "1", "aud": CLIENT, "exp": now + 60, "iat": now, "nonce": asked["nonce"]}
        honest |= {"email": "ada@example.test", "email_verified": True, "groups": ["staff", "chess"]}
        claims = {name: value for name, value in {**honest, **self.claims}.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid, **self.header}
        made = by_public_key(claims) if self.confused else jwt.encode(header, claims, self.key)
        token = self.token or made
        return web.json_response({"access_token": "opaque", "token_type": "Bearer", "id_token": token})


ENDPOINTS = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    runner = web.AppRunner(made.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made.stop = runner.cleanup
    yield made
    await runner.cleanup()


@pytest_asyncio.fixture
async def guarded(redis_stage, provider, serve_console, monkeypatch) -> AsyncIterator[Any]:
    """The console of a fleet whose operator has named the provider."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    told = {"issuer": provider.url, "client_id": CLIENT, "client_secret_env": "OIDC_SECRET", "admit": ADMIT}
    fields = {"public_url": PUBLIC, "console": ConsoleSettings(oidc=Oidc.model_validate(told))}
    redis_stage.muster = Muster(redis_stage.transport, redis_stage.muster.settings.model_copy(update=fields))
    async with serve_console(redis_stage) as console:
        yield console


async def left(console, to: str = "") -> str:
    page = await console.get("/console/sign-in/oidc", who="nobody", params={"to": to})
    assert page.status == 303
    return page.headers["Location"]


async def came_back(console, brought: dict[str, str]):
    return await console.get("/console/sign-in/oidc/back", who="nobody", params=brought)


async def signed_in(console, provider: Provider, to: str = ""):
    return await came_back(console, provider.sign_in(await left(console, to)))


async def test_somebody_signs_in_and_is_whom_the_table_says(guarded, provider):
    button = await guarded.get("/console/sign-in", who="nobody", params={"to": "/console/asks"})
    back = await signed_in(guarded, provider, "/console/asks")
    page = await guarded.get("/console/asks", who="nobody")

    assert "Sign in with your organisation" in button.text
    assert (back.status, back.headers["Location"]) == (303, "/console/asks")
    assert "ada@example.test" in page.text and "approver" in page.text
    basic = base64.b64decode(provider.asked[0]["authorization"].removeprefix("Basic ")).decode()
    assert basic == "muster:a+secret+with%3A+signs%2F"
    assert SECRET not in back.text + str(back.headers)


async def test_who_is_in_no_row_of_the_table_is_let_in_nowhere(guarded, provider):
    for claims in ({"groups": ["chess"]}, {"groups": None}, {"groups": "staffroom"}, {"email_verified": None}):
        provider.claims = claims
        assert (await signed_in(guarded, provider)).status == 403
    await guarded.tokens.create("ada@example.test", "viewer", "default")
    provider.claims = {}
    assert (await signed_in(guarded, provider)).status == 403
    assert (await guarded.get("/console/asks", who="nobody")).status == 303


WRONG: dict[str, dict[str, Any]] = {
    "another issuer": {"claims": {"iss": "https://evil.test"}},
    "another audience": {"claims": {"aud": "another"}},
    "two audiences and nobody named": {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
    "expired": {"claims": {"exp": int(time.time()) - 3600}},
    "without an end": {"claims": {"exp": None}},
    "another nonce": {"claims": {"nonce": "another"}},
    "without a nonce": {"claims": {"nonce": None}},
    "a key that is not published": {"key": OTHER},
    "a signature of another key": {"key": OTHER, "header": {"kid": "one"}},
    "no token": {"token": "none"},
    "unsigned": {"token": "eyJhbGciOiJub25lIn0.e30."},
    "signed with the public key as a secret": {"confused": True},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_token_that_is_wrong_in_one_thing_lets_nobody_in(guarded, provider, wrong):
    for name, value in WRONG[wrong].items():
        setattr(provider, name, value)
    page = await signed_in(guarded, provider)

    assert page.status == 401, page.text
    assert "ID token" in page.text
    assert (await guarded.get("/console/asks", who="nobody")).status == 303


async def test_a_state_counts_once_and_only_in_the_browser_that_began(guarded, provider):
    brought = provider.sign_in(await left(guarded))
    elsewhere = await guarded.get("/console/sign-in/oidc/back", who="stranger", params=brought)
    other_state = await came_back(guarded, {**brought, "state": "another"})
    assert (elsewhere.status, other_state.status) == (401, 401)
    assert "not begun here" in elsewhere.text

    brought = provider.sign_in(await left(guarded))
    jar = {each.key: each.value for each in guarded.people["nobody"].cookie_jar}
    first = await came_back(guarded, brought)
    async with aiohttp.ClientSession(cookies={"muster_oidc": jar["muster_oidc"]}) as copied:
        path = f"{guarded.url}/console/sign-in/oidc/back"
        async with copied.get(path, params=brought, allow_redirects=False) as replayed:
            assert (first.status, replayed.status) == (303, 401)
    state = provider.sign_in(await left(guarded))["state"]
    refused = await came_back(guarded, {"error": "<b>access_denied", "state": state})
    assert refused.status == 401 and "&lt;b&gt;access_denied" in refused.text


async def test_who_begins_again_and_again_keeps_nobody_out(guarded, provider):
    await left(guarded)
    guarded.app.state.rates.per_s, guarded.app.state.rates.burst = 0.001, 2
    for _ in range(4):
        assert (await came_back(guarded, {"code": "x", "state": "of nobody"})).status == 401

    assert (await signed_in(guarded, provider)).status == 303
    flooded = [await came_back(guarded, provider.sign_in(await left(guarded))) for _ in range(3)]
    assert [each.status for each in flooded] == [303, 429, 429]
    assert len(provider.asked) == 2


async def test_a_new_key_is_fetched_when_it_is_used_first(guarded, provider):
    assert (await signed_in(guarded, provider)).status == 303
    provider.published, provider.key = [OTHER], OTHER
    assert (await signed_in(guarded, provider)).status == 303


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.test"},
        {"token_endpoint": "https://evil.test/token"},
        {"jwks_uri": "http://169.254.169.254/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
async def test_endpoints_of_somebody_else_are_not_asked(guarded, provider, metadata):
    provider.metadata = metadata
    page = await guarded.get("/console/sign-in/oidc", who="nobody")
    assert (page.status, provider.asked) == (502, [])


async def test_a_provider_that_is_down_is_a_page_and_tokens_still_let_people_in(guarded, provider):
    brought = provider.sign_in(await left(guarded))
    await provider.stop()
    page = await came_back(guarded, brought)

    assert page.status == 502 and "cannot be reached" in page.text
    assert (await guarded.sign_in("viewer")).status == 303


def test_settings_name_a_safe_issuer_and_whom_it_lets_in(tmp_path):
    good = {"issuer": "https://id.example.test", "client_id": "m", "admit": ADMIT}
    assert Oidc.model_validate(good).may_ask("https://id.example.test/token")
    for wrong in (
        {"issuer": "http://id.example.test"},
        {"issuer": "https://user:word@id.example.test"},
        {"admit": []},
        {"scopes": ["email"]},
        {"client_secret": "here"},
        {"client_secret_env": "A", "client_secret_file": "b"},
    ):
        with pytest.raises(ValidationError):
            Oidc.model_validate({**good, **wrong})
    assert Settings(state_dir=tmp_path).console.oidc is None


def test_a_console_without_a_provider_imports_none_of_its_libraries():
    told = "import sys, orchestrator.api.app; print(sorted({'authlib', 'joserfc'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
