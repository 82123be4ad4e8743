"""The console's doors under attack: each form by each role and none, each page with what is another tenant's, bodies
that fit nowhere, and two who press at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.routing import APIRoute

from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import ErrorInfo
from orchestrator.api.console.app import ROUTERS
from orchestrator.api.tokens import PERMITS, Right, Role
from transport.base import Wait

pytestmark = pytest.mark.redis

PUSH = AskOpened(ask_id="ask_push", permission="bash", patterns=("git push",), detail="git push")
OUTSIDE = ("/sign-in", "/sign-out")
# Whom each form of the console is for. What is done to many asks for the right of the deed that it names.
NEEDS = {
    "/tasks/{task_id}/prompt": Right.SUBMIT,
    "/tasks/{task_id}/resume": Right.SUBMIT,
    "/tasks/{task_id}/replan": Right.SUBMIT,
    "/tasks/{task_id}/cancel": Right.SUBMIT,
    "/traces/{trace_id}/budget": Right.APPROVE,
    "/dead-letters/{task_id}/requeue": Right.OPERATE,
    "/dead-letters/{task_id}/purge": Right.OPERATE,
    "/start": Right.SUBMIT,
    "/start/go": Right.SUBMIT,
    "/asks/{ask_id}/answer": Right.APPROVE,
    "/asks/tenant/{tenant:path}": Right.OPERATE,
    "/batches/bulk": Right.SEE,
    "/batches/{task_id}/retry": Right.SUBMIT,
    "/batches/{task_id}/cancel": Right.SUBMIT,
    "/batches/{task_id}/comment": Right.PUBLISH,
    "/batches/{task_id}/close": Right.PUBLISH,
    "/batches/{task_id}/publish": Right.PUBLISH,
}


def routes(method: str) -> Iterator[str]:
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and method in route.methods and route.path not in OUTSIDE:
                yield route.path


FORMS = sorted(routes("POST"))
PAGES = sorted(path for path in routes("GET") if "{" in path)


def filled(path: str, **ids: str) -> str:
    known = {"task_id": "0" * 32, "trace_id": "0" * 32, "ask_id": "ask_none", "tenant": "nobody", "name": "x"}
    return "/console" + path.replace(":path", "").format(**{**known, "repository": "demo", "number": "0", **ids})


async def asked(console) -> str:
    """A task that waits for an answer; its id."""
    work = await console.work("hopeful")
    await work.tell(PUSH)
    assert await console.stage.transport.park(work.lease, Wait(asks=frozenset({PUSH.ask_id})))
    return work.lease.task_id


async def dead_one(console):
    work = await console.work("hopeless")
    await work.end(State.ERROR, dead="it died", errors=(ErrorInfo.of(ErrorCode.POISON, "it died"),))
    return work.lease


async def decisions(console, subject: str = "") -> list[tuple[str, str]]:
    """Who did what, as the audit log has it."""
    entries = [each.fields for each in await console.stage.transport.audit.latest(100)]
    return [(one["actor"], one["action"]) for one in entries if subject in ("", one["subject"])]


async def failed_batch(console, text: str) -> str:
    def fail(task, files):
        raise console.stage.builders.fails("no")

    console.stage.builders.edit = fail
    request = console.stage.batch_request(await console.stage.repository({"src/a.py": "old\n"}), text=text)
    return (await console.stage.run(request)).task_id


async def reviewed(console, **fields: str):
    """The page that says what a form would start."""
    return await console.post("/console/start", {"key": "k1", **fields}, who="submitter")


def test_each_form_is_for_somebody():
    assert set(FORMS) == set(NEEDS)


async def test_a_forged_form_does_nothing_that_its_sender_may_not(console):
    csrf = {who: (await console.get("/console/", who=who)).csrf for who in console.secrets}
    for path in FORMS:
        place = filled(path)
        assert (await console.get(place, who="nobody")).status in (303, 404, 405), place
        assert (await console._call("POST", place, "nobody", data={"csrf": csrf["admin"]})).status == 401, place
        for role in Role:
            others = csrf["stranger" if role is not Role.ADMIN else "viewer"]
            for forged in ("", others):
                assert (await console._call("POST", place, role, data={"csrf": forged})).status == 403, (place, role)
            status = (await console._call("POST", place, role, data={"csrf": csrf[role]})).status
            assert (status == 403) == (NEEDS[path] not in PERMITS[role]), (place, role, status)
            assert status < 500, (place, role, status)


async def test_what_is_another_tenants_is_not_there_in_the_words_of_what_never_was(console, batch_text):
    await asked(console)
    task = await dead_one(console)
    batch = await failed_batch(console, batch_text)
    ids = {"trace_id": task.trace_id, "ask_id": PUSH.ask_id, "tenant": "default"}

    for path in PAGES:
        own = {**ids, "task_id": batch if path.startswith("/batches") else task.task_id}
        nothing = {"task_id": "0" * len(own["task_id"]), "trace_id": "0" * 32, "ask_id": "ask_none", "tenant": "nobody"}
        theirs = await console.get(filled(path, **own), who="stranger", params={"call": "1"})
        nowhere = await console.get(filled(path, **nothing), who="stranger", params={"call": "1"})
        assert (theirs.status, nowhere.status) == (404, 404), path
        said = theirs.text
        for name, value in own.items():
            said = said.replace(value, nothing[name]) if f"{{{name}" in path else said
        assert said == nowhere.text, path
    for path in ("/", "/traces", "/traces?q=hopeless", "/asks", "/batches", "/dead-letters", "/start"):
        seen = (await console.get(f"/console{path}", who="stranger")).text
        for word in (task.task_id, task.trace_id, batch, "hopeless</a>", "hopeful", PUSH.ask_id, "modernise"):
            assert word not in seen, (path, word)


async def test_of_forms_only_those_of_pages_are_read(console):
    """The library decodes by the character set that a header names, one of which takes minutes for a megabyte."""
    csrf = (await console.get("/console/", who="admin")).csrf
    part = 'Content-Disposition: form-data; name="csrf"'
    for kind in (
        "multipart/form-data; boundary=b; charset=punycode", "multipart/form-data; boundary=b; charset=utf-7",
        'multipart/form-data; charset="unicode_escape"; boundary=b', "application/json", "text/plain", "",
    ):  # fmt: skip
        for path in ("/console/sign-in", "/console/sign-out"):
            body = f"--b\r\n{part}\r\n\r\n{csrf}\r\n--b--\r\n"
            page = await console._call("POST", path, "admin", data=body.encode(), headers={"Content-Type": kind})
            assert (page.status, "Back to the fleet" in page.text) == (415, True), kind
    large = await console._call("POST", "/console/sign-in", "nobody", data={"to": "x" * 20_000})
    assert (large.status, "Back to the fleet" in large.text) == (413, True)
    many = [("a", "b")] * 2_000
    assert (await console._call("POST", "/console/sign-in", "nobody", data=many)).status == 400
    assert (await console.get("/console/", who="admin")).status == 200


async def test_every_answer_says_that_nobody_keeps_or_frames_it(console):
    task, script = (await console.work("go")).task, "/console/static/console.js"
    for method, path, who, status, options in (
        ("GET", "/console/", "viewer", 200, {}),
        ("GET", "/console/", "nobody", 303, {}),
        ("GET", "/", "nobody", 303, {}),
        ("GET", "/console/nowhere", "viewer", 404, {}),
        ("PUT", "/console/", "viewer", 405, {}),
        ("POST", "/console/sign-in", "nobody", 413, {"data": {"token": "x" * 20_000}}),
        ("POST", "/console/start", "viewer", 415, {"data": b"x"}),
        ("GET", f"/console{task}/change.diff", "viewer", 404, {}),
        ("GET", f"{script}.none", "viewer", 404, {}),
        ("GET", script, "viewer", 200, {}),
        ("GET", "/v1/tasks", "nobody", 401, {}),
        ("PUT", "/v1/tasks", "nobody", 405, {}),
        ("GET", "/nowhere", "nobody", 404, {}),
        ("GET", "/healthz", "nobody", 200, {}),
        ("GET", "/openapi.json", "nobody", 200, {}),
    ):
        page = await console._call(method, path, who, **options)
        assert page.status == status, path
        assert page.headers["X-Content-Type-Options"] == "nosniff", path
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"], path
        assert page.headers["Cache-Control"] == ("no-cache" if path == script else "no-store"), path


WRONG = {
    "an address with a password": {"url": "https://me:secret@git.example.com/a.git"},
    "an address that is half of one": {"url": "https://["},
    "an address with a line break": {"url": "https://git.example.com/a\n.git"},
    "this machine in digits": {"url": "https://2130706433/a.git"},
    "this machine in another block": {"url": "https://[::1]/a.git"},
    "this machine as another block's": {"url": "https://[::ffff:127.0.0.1]/a.git"},
    "this machine as no address": {"url": "https://0.0.0.0/a.git"},
    "this machine by its name": {"url": "https://localhost./a.git"},
    "this machine in other digits": {"url": "https://0x7f.1/a.git"},
    "this machine in letters of another kind": {"url": "https://⑫⑦.0.0.1/a.git"},
    "a host behind a slash": {"url": "https://git.example.com\\@127.0.0.1/a.git"},
    "a cloud's metadata": {"url": "https://169.254.169.254/latest"},
    "an option of git's": {"url": "--upload-pack=touch /tmp/x"},
    "a helper of git's": {"url": "ext::sh -c true"},
    "a base that is an option": {"url": "https://127.0.0.1/a.git", "base": "--output=/tmp/x"},
    "an agent of 1,000 letters": {"agent": "a" * 1_000},
    "a model of 1,000 letters": {"model": "m" * 1_000},
    "a length of time without end": {"deadline": "9" * 5_000},
    "an amount without end": {"budget": "9" * 5_000},
}


async def test_what_no_field_takes_is_a_sentence(console):
    for name, fields in WRONG.items():
        page = await reviewed(console, **{"goal": "x", **fields})
        said = unescape(re.sub(r"<[^>]+>", " ", page.text))
        assert page.status == 422, (name, page.status, said)
        assert "secret" not in said and "/tmp/pytest" not in said, name
    for key in ("", "k" * 65):
        page = await console.post("/console/start/go", {"goal": '{"goal": "x"}', "key": key}, who="submitter")
        assert page.status == 422
    for place in ('"url": "https://10.0.0.1/x"', '"url": "git@git.example.com:a/b"', '"path": "/etc"'):
        forged = {"goal": f'{{"goal": "x", "workspace": {{{place}, "base": "{"a" * 40}"}}}}', "key": "k"}
        assert (await console.post("/console/start/go", forged, who="submitter")).status == 422, place
    assert await console.stage.muster.tasks() == []


async def test_a_comment_that_no_forge_takes_is_a_sentence(console, batch_text):
    task_id = await failed_batch(console, batch_text)
    long = "x" * 10_001
    one = await console.post(f"/console/batches/{task_id}/comment", {"text": long})
    bulk = await console.post("/console/batches/bulk", {"deed": "comment", "batch": task_id, "text": long})

    assert (one.status, bulk.status) == (422, 200)
    assert "10000 characters" in one.text and "10000 characters" in bulk.text


async def test_two_who_answer_at_once_are_one_answer_and_one_entry(console):
    task_id = await asked(console)
    csrf = {who: (await console.get("/console/", who=who)).csrf for who in ("approver", "admin")}
    place = f"/console/asks/{PUSH.ask_id}/answer"

    both = await asyncio.gather(*(
        console.post(place, {"choice": choice}, who=who, csrf=csrf[who])
        for who, choice in (("approver", "once"), ("admin", "reject"))
    ))  # fmt: skip

    assert sorted(each.status for each in both) == [303, 409]
    [(actor, action)] = await decisions(console, task_id)
    assert (actor in ("console:approver", "console:admin"), action) == (True, "answer")
    loser = next(each.text for each in both if each.status == 409)
    assert f"<b>{actor.removeprefix('console:')}</b> has answered" in loser


async def test_an_answer_and_a_cancel_at_once_are_both_told_the_truth(console):
    task_id = await asked(console)
    csrf = (await console.get("/console/", who="admin")).csrf

    answered, cancelled = await asyncio.gather(
        console.post(f"/console/asks/{PUSH.ask_id}/answer", {"choice": "once"}, csrf=csrf),
        console.post(f"/console/tasks/{task_id}/cancel", {"reason": "enough"}, csrf=csrf),
    )

    assert cancelled.status == 303
    assert answered.status in (303, 404), answered.text
    actions = sorted(action for _, action in await decisions(console, task_id))
    assert actions == (["answer", "cancel"] if answered.status == 303 else ["cancel"])


async def test_what_is_sent_twice_at_once_is_done_once(console, batch_text):
    csrf = {who: (await console.get("/console/", who=who)).csrf for who in ("submitter", "admin")}
    page = await reviewed(console, goal="go")
    goal = re.search(r'<textarea name="goal"[^>]*>(.*?)</textarea>', page.text, re.DOTALL)
    assert goal
    letter = await dead_one(console)

    batch = await failed_batch(console, batch_text)
    before = {task.task_id for task in await console.stage.muster.tasks()}

    for place, fields, who in (
        ("/console/start/go", {"goal": unescape(goal[1]), "key": "k1"}, "submitter"),
        (f"/console/dead-letters/{letter.task_id}/requeue", {}, "admin"),
        (f"/console/batches/{batch}/retry", {}, "submitter"),
    ):
        pressed = await asyncio.gather(*(console.post(place, fields, who=who, csrf=csrf[who]) for _ in range(4)))
        assert {each.status for each in pressed} == {303}, place
        assert len({each.headers["Location"] for each in pressed}) == 1, place
    assert len({task.task_id for task in await console.stage.muster.tasks()} - before) == 3


async def test_deeds_of_the_console_are_entered_as_its(console):
    work = await console.work("go", budget={"max_cost_microusd": 1_000_000})
    await console.post(f"/console{work.trace}/budget", {"dollars": "7.50"}, who="approver")
    await console.post(f"/console{work.task}/cancel", {"reason": "enough\n{}[2J"}, who="submitter")
    letter = (await dead_one(console)).task_id
    await console.post(f"/console/dead-letters/{letter}/purge", {}, who="admin")

    assert set(await decisions(console)) >= {
        ("console:approver", "raise"),
        ("console:submitter", "cancel"),
        ("console:admin", "purge"),
    }


async def test_a_token_that_only_looks_does_no_deed_by_a_form_of_its_own(console):
    console.secrets["looker"] = await console.tokens.create("looker", Role.ADMIN, "default", read_only=True)
    console.people["looker"] = console.people["nobody"]
    await console.sign_in("looker")
    task_id = await asked(console)
    trace_id = (await console.stage.muster.record(task_id)).trace_id
    letter = (await dead_one(console)).task_id

    for place, fields in {
        f"/asks/{PUSH.ask_id}/answer": {"choice": "once"},
        f"/tasks/{task_id}/prompt": {"text": "hurry"},
        f"/tasks/{task_id}/replan": {"reason": "x"},
        f"/tasks/{task_id}/cancel": {"reason": "x"},
        f"/traces/{trace_id}/budget": {"dollars": "7.50"},
        "/asks/tenant/default": {"dollars": "7.50"},
        f"/dead-letters/{letter}/requeue": {},
        f"/dead-letters/{letter}/purge": {},
    }.items():
        page = await console.post(f"/console{place}", fields, who="looker")
        assert (page.status, "read-only" in page.text) == (403, True), (place, page.text)
    assert "this token is read-only, and may not operate" in page.text
    assert await decisions(console) == []
