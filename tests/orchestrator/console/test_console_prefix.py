"""The server below a path of a proxy's, which passes that on or does not: whatever the server names begins with it."""

from __future__ import annotations

import re

import pytest

from envelope.events import AskOpened, TitleSet
from orchestrator.api.prefix import prefix_of
from orchestrator.errors import BadSettings

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_push", permission="bash", patterns=("git push",), detail="git push")
PLACES = re.compile(r'(?:href|src|action|formaction|data-live)="([^"]+)"')


def stray_in(page: str) -> list[str]:
    assert PLACES.search(page), page
    return [place for place in PLACES.findall(page) if not re.match(r"/muster/console/|[?#]", place)]


async def test_every_place_has_the_prefix_and_the_cookie_goes_nowhere_else(redis_stage, serve_console):
    settings = redis_stage.muster.settings.model_copy(update={"public_url": "http://tools.example.test/muster/"})
    redis_stage.muster = type(redis_stage.muster)(redis_stage.transport, settings)
    async with serve_console(redis_stage) as console:
        console.root = "/muster/console"
        work = await console.work("go")
        await work.tell(TitleSet(title="Going"))
        await work.ask(PUSH)
        signed_in = await console.sign_in("admin")
        cookie = signed_in.headers["Set-Cookie"]
        assert "Path=/muster/console;" in cookie and signed_in.headers["Location"] == "/muster/console/"

        for place in ("/", "/traces", work.trace, work.task, "/asks", "/asks/ask_push", "/start", "/batches", "/none"):
            page = await console.get(f"/muster/console{place}", who="admin")
            stripped = await console.get(f"/console{place}", who="nobody", headers={"Cookie": cookie.partition(";")[0]})
            assert (page.status, stray_in(page.text)) == (404 if place == "/none" else 200, []), place
            assert (stripped.status, stray_in(stripped.text)) == (page.status, []), place
        for place in ("/live", "/traces-live", "/asks/live", f"{work.trace}/live"):
            async for _, parts in console.news(place, who="admin"):
                assert stray_in("".join(parts.values())) == [], place
                break

        said = await console.post(f"/muster/console{work.task}/prompt", {"text": "hurry"})
        away = await console.get("/muster/console/asks", who="nobody")
        assert said.headers["Location"].startswith("/muster/console/tasks/")
        assert away.headers["Location"] == "/muster/console/sign-in?to=/muster/console/asks"
        fields = {"token": console.secrets["admin"], "to": "/muster/console/asks"}
        back = await console._call("POST", "/muster/console/sign-in", "nobody", data=fields)
        assert back.headers["Location"] == "/muster/console/asks"
        for typed in ("/muster", "/muster/", "/muster/console", "/console"):
            assert (await console.get(typed, who="nobody")).headers["Location"] == "/muster/console/"

        script = await console.get("/muster/console/static/console.js")
        large = await console._call("POST", "/muster/console/sign-in", "nobody", data={"to": "x" * 20_000})
        assert (script.headers["Cache-Control"], large.status) == ("no-cache", 413)
        asked = {"agent": "build", "prompt": "x", "deadline_ms": 1_000}
        headers = {"Authorization": f"Bearer {console.secrets['submitter']}"}
        made = await console._call("POST", "/v1/tasks", "nobody", json=asked, headers=headers)
        assert made.headers["Location"].startswith("/muster/v1/tasks/")


@pytest.mark.parametrize("path", ["/console", "/v1/", "/console/sign-in"])
def test_a_public_url_that_is_a_page_of_ours_is_refused(keep_settings, path):
    with pytest.raises(BadSettings, match="public_url"):
        prefix_of(keep_settings.model_copy(update={"public_url": f"https://tools.example.test{path}"}))
