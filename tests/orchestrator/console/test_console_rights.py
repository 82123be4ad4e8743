"""What pages offer is what is done: by each role, and by each whose token only looks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
import pytest_asyncio

from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import ErrorInfo
from orchestrator.api.tokens import Role
from orchestrator.looking import READ_SCOPE
from orchestrator.submit import task_request
from transport.keyring import fresh

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_push", permission="bash", patterns=("git push",), detail="git push")
FORM = re.compile(r'<form method="post" action="([^"]+)"(.*?)</form>', re.DOTALL)
DEED = re.compile(r'name="deed" value="(\w+)"')
BUTTON = re.compile(r'formaction="([^"]+)"')


def offered(page: str) -> set[tuple[str, str]]:
    """Where the page's forms go, each with the deed that a button of it names."""
    forms = {(place, deed) for place, inner in FORM.findall(page) for deed in DEED.findall(inner) or [""]}
    return {each for each in forms if not each[0].endswith("/sign-out")} | {(each, "") for each in BUTTON.findall(page)}


async def offered_on(console, pages: Iterable[str], who: str) -> set[tuple[str, str]]:
    texts = [(await console.get(f"/console{at}", who=who)).text for at in pages]
    return set[tuple[str, str]]().union(*map(offered, texts))


async def looks_for(stage, task_id: str) -> str:
    """A task that only looks, started by one that may write; its id."""
    caller = await stage.muster.request(task_id)
    child = task_request(
        parent=caller, agent="build", pool="build", prompt="look", auth_scope=READ_SCOPE[:1], deadline_ms=600_000
    )
    return (await stage.muster.submit(child)).task_id


@asynccontextmanager
async def signed_in_to_look(console, *roles: Role) -> AsyncIterator[list[str]]:
    """Somebody of each role whose token only looks."""
    async with AsyncExitStack() as stack:
        names = [f"looking-{role}" for role in roles]
        for name, role in zip(names, roles, strict=True):
            console.secrets[name] = await console.tokens.create(name, role, "default", read_only=True)
            session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
            console.people[name] = await stack.enter_async_context(session)
            await console.sign_in(name)
        yield names


@pytest_asyncio.fixture
async def everybody(console) -> AsyncIterator[list[str]]:
    """All roles, and all with tokens that only look, signed in."""
    async with signed_in_to_look(console, *Role) as looking:
        yield [*Role, *looking]


async def test_a_form_is_offered_to_whom_it_is_not_refused_and_to_nobody_else(console, everybody, batch_text):
    stage = console.stage
    await (await console.work("hopeful")).ask(PUSH)
    dead = await console.work("hopeless")
    await dead.end(State.ERROR, dead="it died", errors=(ErrorInfo.of(ErrorCode.POISON, "it died"),))
    looking = await stage.muster.read_only().submit(agent="build", prompt="look", deadline_ms=600_000)
    below = await looks_for(stage, (await stage.muster.submit(agent="build", prompt="x", deadline_ms=600_000)).task_id)
    batch = await stage.muster.submit(
        stage.batch_request(await stage.repository({"src/a.py": "old\n"}), text=batch_text)
    )
    pages = (
        "/", "/start", "/traces", dead.trace, dead.task, f"/tasks/{looking.task_id}", f"/tasks/{below}", "/asks",
        "/asks/ask_push", f"/asks/budget/{dead.lease.trace_id}", "/batches", f"/batches/{batch.task_id}",
        "/dead-letters",
    )  # fmt: skip
    shown = {who: await offered_on(console, pages, who) for who in everybody}
    forms = set[tuple[str, str]]().union(*shown.values())
    csrf = {who: (await console.get("/console/", who=who)).csrf for who in everybody}

    assert len(forms) > 15 and forms == shown["admin"]
    assert shown["viewer"] == shown["looking-viewer"] == shown["looking-approver"] == set()
    to_stop = {place for place, _ in shown["looking-submitter"] if place.endswith("/cancel")}
    assert to_stop == {f"/console/tasks/{looking.task_id}/cancel"}
    for who in everybody:
        for place, deed in forms - shown[who]:
            fields = {"deed": deed, "batch": "x"} if deed else {"text": "x", "reason": "x", "dollars": "1"}
            page = await console.post(place, fields, who=who, csrf=csrf[who])
            assert page.status == 403, (who, place, page.status)
    for who in everybody:
        for place, deed in shown[who]:
            page = await console.post(place, {"deed": deed}, who=who, csrf=csrf[who])
            assert page.status != 403, (who, place, page.text)


async def test_a_server_that_is_read_only_offers_each_role_what_one_that_only_looks_gets(redis_stage, serve_console):
    writing = redis_stage.muster
    redis_stage.muster = writing.read_only()
    async with serve_console(redis_stage) as console, signed_in_to_look(console, Role.SUBMITTER):
        dead = await console.work("hopeless")
        await dead.end(State.ERROR, dead="it died", errors=(ErrorInfo.of(ErrorCode.POISON, "it died"),))
        task = await writing.submit(agent="build", prompt="write", deadline_ms=600_000)
        await (await redis_stage.claimed()).ask(PUSH)
        looking = await redis_stage.muster.submit(agent="build", prompt="look", deadline_ms=600_000)
        pages = (
            "/start", f"/tasks/{task.task_id}", f"/traces/{task.trace_id}", f"/tasks/{looking.task_id}", "/asks",
            "/asks/ask_push", "/batches", "/dead-letters",
        )  # fmt: skip
        shown = {who: await offered_on(console, pages, who) for who in ("admin", "looking-submitter", "approver")}
        start = await console.get("/console/start", who="admin")
        raised = await console.post(f"/console/traces/{task.trace_id}/budget", {"dollars": "1"}, who="admin")

        assert shown["admin"] == shown["looking-submitter"] and shown["approver"] == set()
        assert f"/console/tasks/{looking.task_id}/cancel" in {place for place, _ in shown["admin"]}
        assert 'name="goal"' in start.text and 'name="gate"' not in start.text and 'name="setup"' not in start.text
        assert raised.status == 403 and "this server is read-only, and may not approve" in raised.text
        for place, deed in shown["admin"]:
            page = await console.post(place, {"deed": deed}, who="admin")
            assert page.status != 403, (place, page.text)


async def test_a_task_whose_request_cannot_be_read_is_shown_to_who_only_looks(console):
    """Its key was retired: what may be done with it nobody can tell."""
    handle = await console.stage.muster.read_only().submit(agent="build", prompt="look", deadline_ms=600_000)
    async with signed_in_to_look(console, Role.SUBMITTER) as [who]:
        before = await console.get(f"/console/tasks/{handle.task_id}", who=who)
        console.stage.transport.keyring = fresh()
        after = await console.get(f"/console/tasks/{handle.task_id}", who=who)

    assert (before.status, offered(before.text) != set()) == (200, True)
    assert (after.status, offered(after.text)) == (200, set())
