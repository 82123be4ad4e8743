"""What forges answer when they are asked too often, are broken, or say no."""

from __future__ import annotations

import pytest
from aiohttp import web

from orchestrator.errors import BadInput
from orchestrator.publication.book import Stage
from orchestrator.publication.errors import ForgeDown, ForgeLimits, ForgeRefused
from orchestrator.publication.forges.table import open_forge
from orchestrator.publication.patience import is_limit, limit_s, pause_s
from orchestrator.publication.telling import comment
from orchestrator.publication.terms import Form
from repo.errors import DiskFull, GitTimedOut, RemoteDown
from transport.errors import Unreachable

SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait."}


async def ask(desk, *faults, **pace):
    desk.hub.faults[:] = faults
    async with open_forge("hub", desk.hub.settings(), "team/app", desk.slept.pace(**pace)) as forge:
        return await forge.default_branch()


async def test_limits_are_obeyed_as_they_are_told(github, says):
    reset = str(int(github.slept.now_s) + 20)
    faults = [
        says(429, Retry_After="7"),
        says(403, SECONDARY, Retry_After="9"),
        says(403, {"message": "API rate limit exceeded"}, X_RateLimit_Remaining="0", X_RateLimit_Reset=reset),
        says(403, SECONDARY),
    ]

    assert await ask(github, *faults, max_wait_s=10_000) == "main"
    first, second, third, fourth = github.slept.pauses
    assert (7 <= first < 8, 9 <= second < 10, 0 <= third < 20, 480 <= fourth < 600) == (True,) * 4


async def test_a_longer_limit_than_anybody_waits_is_told_with_its_end(github, says):
    with pytest.raises(ForgeLimits) as told:
        await ask(github, says(429, Retry_After="3600"))

    assert github.slept.pauses == []
    assert "2025-11-22 09:" in told.value.hint and "publish sync" in told.value.hint
    assert told.value.until_s >= github.slept.now_s + 3600


async def test_a_limit_while_publishing_holds_it_and_sync_goes_on(github, says):
    commit = github.commit("second\n")
    github.hub.faults[:] = [says(429, Retry_After="3600")]
    held = await github.publish(commit)
    gone = await github.publisher.publish(held, await github.mirror(commit))

    assert (held.stage, held.code, gone.stage) == (Stage.HELD, "internal", Stage.DRAFT)


async def test_a_broken_forge_is_asked_again_with_growing_pauses(github, says):
    assert await ask(github, says(500), says(502), says(503)) == "main"
    assert github.slept.pauses == [1.0, 2.0, 4.0]

    with pytest.raises(ForgeDown, match="hub answers 503"):
        await ask(github, *[says(503)] * 9)
    assert len(github.slept.pauses) == 3 + 5


@pytest.mark.parametrize(
    ("code", "hint"),
    [(401, "the token is wrong"), (403, "may not do this"), (404, "check the remote's address"), (409, "in its way")],
)
async def test_a_no_is_one_sentence_and_a_hint(github, says, code, hint):
    with pytest.raises(ForgeRefused) as told:
        await ask(github, says(code, {"message": "Not\nhere", "errors": [{"message": "x"}]}))

    assert str(told.value) == f"hub refuses ({code}): Not here x"
    assert hint in told.value.hint
    assert len(github.hub.asked) == 1


async def test_a_redirect_is_not_followed_with_the_token(github, says):
    with pytest.raises(ForgeRefused, match=r"\(301\)") as told:
        await ask(github, says(301, Location=f"{github.hub.url}/elsewhere"))

    assert "renamed or moved" in told.value.hint
    assert len(github.hub.asked) == 1


@pytest.mark.parametrize("body", ["<html>", '["a"]', '{"default_branch": 1', "[" * 100_000])
async def test_nonsense_is_told_as_such(github, body):
    async def nonsense(_: web.Request) -> web.Response:
        return web.Response(text=body)

    with pytest.raises(ForgeDown) as told:
        await ask(github, nonsense)
    assert "kind and url" in told.value.hint


async def test_an_answer_that_was_lost_makes_no_second_request(github):
    commit = github.commit("second\n")
    github.hub.look = lost_once(github.hub, "/pulls")
    made = await github.publish(commit)

    assert (made.stage, made.number, len(github.hub.reviews), github.hub.created) == (Stage.DRAFT, 1, 1, 1)
    assert github.slept.pauses == [1.0]


async def test_an_answer_that_was_lost_makes_no_second_comment(github):
    made = await github.publish(github.commit("second\n"))
    github.hub.look = lost_once(github.hub, "/comments")

    assert await comment(github.publisher, made, "hello")
    assert len(github.hub.reviews[0].comments) == 1


async def test_what_passes_by_itself_is_held_and_sync_goes_on(github):
    """git's own errors: nobody listens, the server is broken, the disk is full. A push that is too large is none."""
    commit = github.commit("second\n")
    mirror = await github.mirror(commit)
    gone = github.wanted(commit, remote="https://127.0.0.1:1/team/app", to=Form.PUSH)
    held = [await github.publisher.publish(gone, mirror)]
    github.hub.look = at_git(github.hub, 503)
    held.append(await github.publish(commit))
    github.hub.look = at_git(github.hub, 413)
    refused = await github.publish(commit)
    github.hub.look = lambda _: None
    made = await github.publish(commit)

    assert [(each.stage, each.code) for each in held] == [(Stage.HELD, "internal")] * 2, held
    assert all("cannot be reached" in each.reason and "try it again later" in each.hint for each in held)
    assert (refused.stage, made.stage) == (Stage.REFUSED, Stage.DRAFT)


def at_git(hub, code: int):
    async def fail(_: web.Request) -> web.Response:
        return web.Response(status=code)

    def look(request: web.Request) -> None:
        if "/app.git/" in request.path:
            hub.faults[:] = [fail]

    return look


@pytest.mark.parametrize("error", [GitTimedOut("late"), DiskFull("full"), Unreachable("no Redis"), RemoteDown("off")])
async def test_what_sync_could_not_do_is_held_unless_somebody_went_on(github, error):
    held = await github.publish(github.commit("second\n"), windows=["sun 00:00-00:01 UTC"])
    told = await github.publisher.refuse(held, error)
    newer = await github.publish(github.commit("third\n"))
    kept = await github.publisher.refuse(told, BadInput("its result is gone"))

    assert (told.stage, told.reason, told.code) == (Stage.HELD, str(error), "internal") and told.hint
    assert (kept, github.book.get(kept.key)) == (newer, newer)


async def test_a_netrc_that_knows_the_host_is_not_asked(github, monkeypatch):
    netrc = github.folder / "netrc"
    netrc.write_text("machine 127.0.0.1 login ann password another-0123456789\n")
    monkeypatch.setenv("NETRC", str(netrc))

    assert await ask(github) == "main"


async def test_the_environments_proxy_is_gone_through(github, says, monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", github.hub.url.replace("://", "://ann:secret@"))
    seen: list[str | None] = []
    github.hub.look = lambda request: seen.append(request.headers.get("Proxy-Authorization"))
    nowhere = github.hub.settings().model_copy(update={"url": "http://127.0.0.1:1/api"})
    github.hub.faults[:] = [says(200, {"default_branch": "through"})]
    async with open_forge("hub", nowhere, "team/app", github.slept.pace()) as forge:
        through = await forge.default_branch()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    straight = await ask(github)
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(BadInput, match="http_proxy names a proxy"):
        await ask(github)

    assert (through, straight) == ("through", "main")
    assert seen == ["Basic YW5uOnNlY3JldA==", None]


def lost_once(hub, end: str):
    """The first POST there is done, and its answer is a 502 of something in between."""
    lost: list[str] = []

    async def lose(request: web.Request) -> web.Response:
        await hub.answer(request)
        return web.Response(status=502)

    def look(request: web.Request) -> None:
        if request.method == "POST" and request.path.endswith(end) and not lost:
            lost.append(request.path)
            hub.faults[:] = [lose]

    return look


async def test_a_repository_without_drafts_says_what_to_do(github, says):
    commit = github.commit("second\n")
    told = {"message": "Draft pull requests are not supported in this repository."}

    def look(request: web.Request) -> None:
        if request.method == "POST" and request.path.endswith("/pulls"):
            github.hub.faults[:] = [says(422, told)]

    github.hub.look = look
    refused = await github.publish(commit)

    assert (refused.stage, github.hub.created) == (Stage.REFUSED, 1)
    assert "--ready" in refused.hint


def test_what_a_limit_is():
    assert is_limit(403, {"x-ratelimit-remaining": "0"}, "")
    assert is_limit(403, {}, "You have exceeded a SECONDARY rate limit")
    assert not is_limit(403, {"x-ratelimit-remaining": "12"}, "Resource not accessible by integration")
    assert limit_s({"retry-after": "Sat, 22 Nov 2025 08:27:10 GMT"}, 1, 1_763_800_000.0) == 30.0
    assert limit_s({"retry-after": "soon"}, 1, 0.0) == 60.0
    assert limit_s({"ratelimit-reset": "1060"}, 1, 1_000.0) == 60.0
    assert [pause_s(tries, 0.5) for tries in (1, 3, 30)] == [1.0, 4.0, 60.0]
    assert (pause_s(1, 0.0), pause_s(1, 1.0)) == (0.75, 1.25)
