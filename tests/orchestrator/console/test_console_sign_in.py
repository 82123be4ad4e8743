"""Who gets in, who is kept out, and what a page lets a browser do."""

from __future__ import annotations

from pathlib import Path

from orchestrator.api.console.signing import signer_of
from orchestrator.api.tokens import Role, Tokens
from transport.registry import MemoryRegistry


async def test_the_root_leads_to_the_sign_in_and_back(console):
    for typed in ("/", "/console"):
        assert (await console.get(typed, who="nobody")).headers["Location"] == "/console/"
    away = await console.get("/console/", who="nobody")
    assert (away.status, away.headers["Location"]) == (303, "/console/sign-in?to=/console/")

    page = await console.get("/console/", who="viewer")
    assert page.status == 200
    assert "viewer" in page.text


async def test_a_wrong_token_is_refused_and_not_repeated(console):
    page = await console._call("POST", "/console/sign-in", "nobody", data={"token": "muster_wrong"})

    assert page.status == 401
    assert "muster_wrong" not in page.text
    assert "Set-Cookie" not in page.headers


async def test_after_the_sign_in_one_goes_on_inside_only(console):
    for to, goes in (
        ("/console/asks", "/console/asks"),
        ("https://evil.test/console/", "/console/"),
        ("//evil.test", "/console/"),
        ("/console/\\evil.test", "/console/"),
    ):
        fields = {"token": console.secrets["viewer"], "to": to}
        assert (await console._call("POST", "/console/sign-in", "nobody", data=fields)).headers["Location"] == goes


async def test_a_page_lets_a_browser_load_nothing_else_and_keeps_the_cookie_from_scripts(console):
    page = await console.sign_in("viewer")
    cookie = page.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/console" in cookie
    assert console.secrets["viewer"] not in cookie

    headers = (await console.get("/console/")).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


async def test_a_form_of_another_site_is_refused(console):
    for csrf in ("", "0" * 64):
        assert (await console.post("/console/sign-out", {}, who="viewer", csrf=csrf)).status == 403
    other = (await console.get("/console/", who="admin")).csrf
    assert (await console.post("/console/sign-out", {}, who="viewer", csrf=other)).status == 403

    assert (await console.post("/console/sign-out", {}, who="viewer")).status == 303
    assert (await console.get("/console/", who="viewer")).status == 303


async def test_a_revoked_token_is_signed_out_at_once(console):
    await console.tokens.revoke("viewer")
    assert (await console.get("/console/", who="viewer")).status == 303


async def test_what_is_not_there_is_a_page_with_a_way_back(console):
    page = await console.get("/console/nowhere")
    assert page.status == 404
    assert "Back to the fleet" in page.text
    assert page.headers["Content-Security-Policy"]


async def test_a_cookie_ends_with_its_time_and_is_nobody_elses(tmp_path: Path):
    tokens = Tokens(MemoryRegistry())
    await tokens.create("ada", Role.VIEWER, "default")
    now_s = 1_000_000.0
    signer = signer_of(tmp_path, tokens)
    timed = type(signer)(signer.key, tokens, lambda: now_s)
    cookie = timed.cookie(await tokens.named("ada"))

    assert (found := await timed.read(cookie)) is not None and found.token.name == "ada"
    body, _, mac = cookie.partition(".")
    assert await timed.read(f"{body[:-4]}AAAA.{mac}") is None
    assert await timed.read("") is None
    assert signer_of(tmp_path, tokens).key == signer.key
    now_s += 12 * 3600
    assert await timed.read(cookie) is None
