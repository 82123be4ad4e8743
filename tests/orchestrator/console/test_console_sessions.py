"""Sessions under attack: cookies that were copied, forms of other sites, and who keeps others from signing in."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis.asyncio

from orchestrator.api.console.signing import SIGNED_IN_S, SIGNED_OUT, Signer, person, signer_of
from orchestrator.api.tokens import Role, Tokens
from orchestrator.console_settings import Oidc
from orchestrator.errors import BadInput
from transport.registry import MemoryRegistry

pytestmark = pytest.mark.redis

ADMIT = {"claim": "groups", "value": "staff", "role": "approver"}
OIDC = Oidc.model_validate({"issuer": "https://login.test", "client_id": "muster", "admit": [ADMIT]})


def cookie_of(console, who: str) -> dict[str, str]:
    return {each.key: each.value for each in console.people[who].cookie_jar}


async def test_a_copy_of_a_cookie_counts_no_more_once_its_owner_has_signed_out(console):
    elsewhere = cookie_of(console, "viewer")  # in another browser
    await console.sign_in("viewer")
    copied = cookie_of(console, "viewer")

    assert (await console.get("/console/", who="nobody", cookies=copied)).status == 200
    assert (await console.post("/console/sign-out", {}, who="viewer")).status == 303
    replayed = await console.get("/console/", who="nobody", cookies=copied)
    other = await console.get("/console/", who="nobody", cookies=elsewhere)

    assert (replayed.status, other.status) == (303, 200)


async def test_a_sign_out_is_every_servers_and_is_forgotten_with_its_cookie(tmp_path: Path):
    tokens = Tokens(MemoryRegistry())
    await tokens.create("ada", Role.VIEWER, "default")
    now_s = 1_000_000.0
    key = signer_of(tmp_path, tokens).key

    def signer() -> Signer:
        return Signer(key, tokens, lambda: now_s)

    ada = await tokens.named("ada")
    first, kept = signer().cookie(ada), signer().cookie(ada)
    await signer().sign_out(first)
    await signer().sign_out("no cookie of ours")
    assert await signer().read(first) is None
    assert await signer().read(kept) is not None

    now_s += SIGNED_IN_S
    later = signer().cookie(ada)
    await signer().sign_out(later)
    assert len(await tokens.registry.rows(SIGNED_OUT)) == 1
    assert await signer().read(first) is None


async def test_who_came_from_a_provider_goes_with_the_settings_that_let_them_in(tmp_path: Path):
    tokens = Tokens(MemoryRegistry())
    cookie = signer_of(tmp_path, tokens, OIDC).cookie(person("ada@example.test", role=Role.APPROVER, tenant="default"))
    lowered = OIDC.model_copy(update={"admit": (OIDC.admit[0].model_copy(update={"role": Role.VIEWER}),)})

    assert await signer_of(tmp_path, tokens, OIDC).read(cookie) is not None
    assert await signer_of(tmp_path, tokens, lowered).read(cookie) is None
    assert await signer_of(tmp_path, tokens).read(cookie) is None


def test_a_key_that_others_can_read_is_none(tmp_path: Path):
    tokens = Tokens(MemoryRegistry())
    signer_of(tmp_path, tokens)
    (tmp_path / "console.key").chmod(0o644)

    with pytest.raises(BadInput, match="can be read by others"):
        signer_of(tmp_path, tokens)


@pytest.mark.parametrize("said", [
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.test"},
    {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://["},
])  # fmt: skip
async def test_a_page_elsewhere_signs_nobody_in_or_out(console, said: dict[str, str]):
    fields, csrf = {"token": console.secrets["viewer"]}, (await console.get("/console/", who="viewer")).csrf

    signed_in = await console._call("POST", "/console/sign-in", "nobody", data=fields, headers=said)
    signed_out = await console._call("POST", "/console/sign-out", "viewer", data={"csrf": csrf}, headers=said)

    assert (signed_in.status, signed_out.status) == (403, 403)
    assert "Set-Cookie" not in signed_in.headers
    for ours in ({"Sec-Fetch-Site": "same-origin", "Origin": "https://console.test"}, {"Origin": console.url}):
        assert (await console._call("POST", "/console/sign-in", "nobody", data=fields, headers=ours)).status == 303


async def test_who_guesses_tokens_keeps_nobody_out(console):
    console.app.state.rates.per_s, console.app.state.rates.burst = 0.001, 3
    wrong = [await console._call("POST", "/console/sign-in", "nobody", data={"token": "muster_no"}) for _ in range(4)]

    assert [each.status for each in wrong] == [401, 401, 401, 429]
    assert (await console.sign_in("submitter")).status == 303


async def test_behind_a_proxy_with_tls_the_cookie_goes_by_tls_alone(redis_stage, serve_console):
    settings = redis_stage.muster.settings.model_copy(update={"public_url": "https://muster.example.test"})
    redis_stage.muster = type(redis_stage.muster)(redis_stage.transport, settings)
    async with serve_console(redis_stage) as console:
        assert "; Secure" in (await console.sign_in("viewer")).headers["Set-Cookie"]


@pytest.mark.parametrize("to", ["//[", "https://[", "/console/[", "/console/%0d%0aSet-Cookie:a=b", "\x00", "/console"])
async def test_whatever_a_link_says_to_go_on_to_somebody_is_signed_in(console, to: str):
    fields = {"token": console.secrets["viewer"], "to": to}
    page = await console._call("POST", "/console/sign-in", "nobody", data=fields)

    assert page.status == 303
    assert page.headers["Location"].startswith("/console/")
    assert len(page.headers.getall("Set-Cookie")) == 1


async def test_the_servers_own_trouble_is_its_operators_to_read(served_stage, serve_console):
    """What is wrong with its Redis names keys, users and addresses."""
    settings = served_stage.muster.settings
    name = f"muster:{settings.fleet}:registry:tokens"
    async with serve_console(served_stage) as console:
        async with redis.asyncio.Redis.from_url(settings.redis_url) as raw:
            await raw.set(name, "no table")
        pages = [
            await console._call("POST", "/console/sign-in", "nobody", data={"token": "muster_x"}),
            await console.get("/console/", who="viewer"),
            await console._call("GET", "/v1/tasks", "nobody", headers={"Authorization": "Bearer x"}),
        ]

    assert [each.status for each in pages] == [500] * 3
    for each in pages:
        assert each.text and name not in each.text
