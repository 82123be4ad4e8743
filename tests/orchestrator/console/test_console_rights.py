"""What pages offer is what is done: by each role, and by each whose token only looks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
import pytest_asyncio

from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import ErrorInfo
from orchestrator.api.tokens import Role

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_push", permission="bash", patterns=("git push",), detail="git push")
FORM = re.compile(r'<form method="post" action="([^"]+)"(.*?)</form>', re.DOTALL)
DEED = re.compile(r'name="deed" value="(\w+)"')
BUTTON = re.compile(r'formaction="([^"]+)"')


def offered(page: str) -> set[tuple[str, str]]:
    """Where the page's forms go, each with the deed that a button of it names."""
    forms = {(place, deed) for place, inner in FORM.findall(page) for deed in DEED.findall(inner) or [""]}
    return {each for each in forms if not each[0].endswith("/sign-out")} | {(each, "") for each in BUTTON.findall(page)}


@pytest_asyncio.fixture
async def everybody(console) -> AsyncIterator[list[str]]:
    """All roles, and all with tokens that only look, signed in."""
    async with AsyncExitStack() as stack:
        for role in Role:
            name = f"looking-{role}"
            console.secrets[name] = console.tokens.create(name, role, "default", read_only=True)
            session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
            console.people[name] = await stack.enter_async_context(session)
            await console.sign_in(name)
        yield [*Role, *(f"looking-{role}" for role in Role)]


async def test_a_form_is_offered_to_whom_it_is_not_refused_and_to_nobody_else(console, everybody, batch_text):
    stage = console.stage
    await (await console.work("hopeful")).ask(PUSH)
    dead = await console.work("hopeless")
    await dead.end(State.ERROR, dead="it died", errors=(ErrorInfo.of(ErrorCode.POISON, "it died"),))
    looking = await stage.muster.read_only().submit(agent="build", prompt="look", deadline_ms=600_000)
    batch = await stage.muster.submit(
        stage.batch_request(await stage.repository({"src/a.py": "old\n"}), text=batch_text)
    )
    pages = (
        "/", "/start", "/traces", dead.trace, dead.task, f"/tasks/{looking.task_id}", "/asks", "/asks/ask_push",
        f"/asks/budget/{dead.lease.trace_id}", "/batches", f"/batches/{batch.task_id}", "/dead-letters",
    )  # fmt: skip
    shown = {
        who: set[tuple[str, str]]().union(
            *[offered((await console.get(f"/console{at}", who=who)).text) for at in pages]
        )
        for who in everybody
    }
    forms = set[tuple[str, str]]().union(*shown.values())
    csrf = {who: (await console.get("/console/", who=who)).csrf for who in everybody}

    assert len(forms) > 15 and forms == shown["admin"]
    assert shown["viewer"] == shown["looking-viewer"] == shown["looking-approver"] == set()
    assert f"/console/tasks/{looking.task_id}/cancel" in {place for place, _ in shown["looking-submitter"]}
    for who in everybody:
        for place, deed in forms - shown[who]:
            fields = {"deed": deed, "batch": "x"} if deed else {"text": "x", "reason": "x", "dollars": "1"}
            page = await console.post(place, fields, who=who, csrf=csrf[who])
            assert page.status == 403, (who, place, page.status)
    for who in everybody:
        for place, deed in shown[who]:
            page = await console.post(place, {"deed": deed}, who=who, csrf=csrf[who])
            assert page.status != 403, (who, place, page.text)
