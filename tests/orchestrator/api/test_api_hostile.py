"""A client that means harm: what is not its own, bytes that fit nowhere, bodies without an end, too many streams."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from envelope.agents import AgentCard, ProjectCards, WorkerCard
from envelope.asks import AskTerms
from envelope.errors import ErrorCode
from envelope.ids import content_key
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from orchestrator.api import bodies, traces
from orchestrator.api.app import create_app
from orchestrator.api.streams import EventStream, Streams
from orchestrator.api.tokens import ALL_TENANTS, Role, Token, Tokens
from orchestrator.errors import BadInput, BadSettings
from orchestrator.submit import DRIVERS
from transport.blobs.owners import acting_for
from transport.consumer import Delivery
from transport.errors import NotFound, Unreachable

pytestmark = pytest.mark.redis

NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}
HEADERS = {"Content-Type": "application/json"}


def with_params(text: str) -> bytes:
    return json.dumps(NEW).encode()[:-1] + b', "params": {"x": ' + text.encode() + b"}}"


WRONG_BODIES = {
    "half a character": with_params('"\\ud800"'),
    "half a character as a key": with_params('{"\\ud800": 1}'),
    "half a character in what is looked up": json.dumps({**NEW, "resume_token": "\ud800"}).encode(),
    "a number beyond 64 bits": with_params(str(2**70)),
    "a number of 5,000 digits": with_params("9" * 5_000),
    "nesting that no worker would read": with_params("[" * 40 + "]" * 40),
    "nesting that no parser would read": with_params("[" * 100_000 + "]" * 100_000),
    "an id that is none": json.dumps({**NEW, "resume_token": "x" * 100_000}).encode(),
    "a model of 100,000 letters": json.dumps({**NEW, "model": "m" * 100_000}).encode(),
    "infinity": json.dumps({**NEW, "deadline_ms": float("inf")}).encode(),
    **{
        f"a key of {part} that is not known": json.dumps({**NEW, part: value}).encode()
        for part, value in {
            "budget": {"max_cots": 5},
            "workspace": {"url": "https://h/x", "base": "a" * 40, "brnch": "main"},
            "context_refs": [{"type": "file", "id": "a.py", "rnge": [1, 2]}],
            "attachments": [{"blob": "sha256:" + "0" * 64, "name": "x", "nmae": "y"}],
        }.items()
    },
}


async def test_a_body_that_fits_nowhere_is_a_problem_and_no_task(api):
    for name, body in WRONG_BODIES.items():
        status, problem = await api.call("POST", "/v1/tasks", data=body, headers=HEADERS)
        assert status in (400, 422) and problem["title"] and len(problem["title"]) < 500, (name, problem)
    for body in ({"goal": "x", "budget": {"max_trns": 3}}, {"goal": "x", "min_tests": 10**30}):
        assert (await api.call("POST", "/v1/goals", json=body))[0] == 422

    assert await api.stage.muster.tasks() == []


@pytest.mark.parametrize(
    "url", ["git@git.example.com:a/b", "ssh://git@git.example.com/a", "http://10.0.0.1/a", "file:///x"]
)
async def test_the_workers_own_keys_are_lent_to_who_sees_all_tenants_alone(api, url):
    api.secrets["operator"] = await api.tokens.create("operator", Role.SUBMITTER, ALL_TENANTS)
    where = {"workspace": {"url": url, "base": "a" * 40}}
    bodies = {"tasks": NEW, "goals": {"goal": "x"}, "fanouts": {"agent": "build", "prompt": "x {item}", "items": ["a"]}}

    refused = [await api.call("POST", f"/v1/{kind}", json={**body, **where}) for kind, body in bodies.items()]

    assert [(status, "https" in problem["title"]) for status, problem in refused] == [(422, True)] * 3
    assert await api.stage.muster.tasks() == []
    assert (await api.call("POST", "/v1/tasks", who="operator", json={**NEW, **where}))[0] == 201


async def test_a_tenants_repository_is_of_a_public_host_or_comes_by_its_own_credential(api):
    api.secrets["operator"] = await api.tokens.create("operator", Role.SUBMITTER, ALL_TENANTS)
    where = {"workspace": {"url": "https://git.example.com/a", "base": "a" * 40}}

    of_tenant = await api.submit(**where)
    of_operator = (await api.call("POST", "/v1/tasks", who="operator", json={**NEW, **where}))[1]["task_id"]

    spaces = [(await api.stage.muster.request(task_id)).workspace for task_id in (of_tenant, of_operator)]
    assert [space and space.public for space in spaces] == [True, False]


@pytest.mark.parametrize("path", [
    "/v1/tasks/%2e%2e/%2e%2e/etc/passwd", "//v1/tasks", "/v1/tasks/", "/v1/tasks/%00", "/v1/tasks/%ff%fe",
    "/v1/tasks/x%0d%0aSet-Cookie:a=b", "/v1/tasks/" + "a" * 8_000, "/v1/traces/*", "/v1/traces/%00", "/v1/asks/%ff",
    "/v1/tasks?trace=*", "/v1/tasks?trace=%00", "/v1/tenants/%2A/budget", "/v1/tenants/a%3Ab/budget",
    "/v1/tasks?cursor=" + "9" * 8_000, "/v1/tasks?cursor=%D9%A1-" + "f" * 36, "/v1/sessions?cursor=%00",
    "/v1/tasks?limit=" + "9" * 30, "/v1/answers/" + "a" * 5_000,
])  # fmt: skip
async def test_a_path_that_leads_nowhere_is_a_problem(api, path):
    async with api.session.get(api.url + path, headers=api.auth("admin"), allow_redirects=False) as answer:
        problem = await answer.json()

    assert answer.status in (404, 422) and problem["status"] == answer.status
    assert answer.content_type == "application/problem+json"
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("place", ["9" * 60, "1-2-3", str(2**64), f"1-{2**64}", "$", ">", "-1", "\u0661", "0 0", "+"])
async def test_a_place_that_no_stream_has_is_a_problem_and_no_broken_stream(api, place):
    task = await api.stage.muster.record(await api.submit())
    path, headers = f"/v1/traces/{task.trace_id}/events", {"Last-Event-ID": place}

    status, problem = await api.call("GET", path, headers=headers)

    assert (status, problem["status"]) == (422, 422)


async def test_a_place_of_another_trace_tells_nothing_of_that(api):
    mine, theirs = [await api.stage.muster.record(await api.submit(who=who)) for who in ("submitter", "stranger")]
    [*_, last] = await api.stage.muster.events(theirs.trace_id)
    await api.stage.muster.cancel(mine.task_id)

    headers = {**api.auth("viewer"), "Last-Event-ID": last.id}
    async with api.session.get(f"{api.url}/v1/traces/{mine.trace_id}/events", headers=headers) as stream:
        text = await stream.text()

    assert theirs.task_id not in text and text.endswith("event: end\ndata: {}\n\n")


async def test_dead_letters_and_repositories_are_told_to_their_tenant_alone(api):
    api.secrets["operator"] = await api.tokens.create("operator", Role.ADMIN, ALL_TENANTS)
    work = await api.work()
    error = ErrorInfo.of(ErrorCode.POISON, "it took them all down")
    await work.end(State.ERROR, errors=(error,), dead="secret.py is to blame")
    project = ProjectCards(commit="c" * 40, agents=(AgentCard(name="theirs", mode="primary", pool="build"),))
    await api.stage.transport.announce(WorkerCard(worker="w2", pool="build", slots=1, projects=(project,)), ttl_s=60)

    letters = {
        who: (await api.call("GET", "/v1/dead-letters", who=who))[1] for who in ("admin", "operator", "stranger")
    }
    workers = {who: (await api.call("GET", "/v1/workers", who=who))[1] for who in ("operator", "stranger")}

    assert [letter["task_id"] for letter in letters["admin"]] == [work.task_id]
    assert (letters["operator"], letters["stranger"]) == (letters["admin"], [])
    assert ["theirs" in json.dumps(cards) for cards in workers.values()] == [True, False]


@pytest.mark.parametrize(("door", "body"), [("tasks", NEW), ("goals", {"goal": "x"}), ("batches", {})])
async def test_a_key_of_the_fleets_own_is_nobodys(api, door: str, body: dict[str, Any]):
    key = {"Idempotency-Key": content_key("gate", "after")}
    status, problem = await api.call("POST", f"/v1/{door}", who="submitter", json=body, headers=key)

    assert status == 422
    assert "the fleet's own" in json.dumps(problem)


@pytest.mark.parametrize("said", [{"pool": DRIVERS}, {"agent": "run"}, {"agent": "batch", "pool": "build"}])
async def test_a_drivers_task_is_made_by_the_server_alone(api, said: dict[str, Any]):
    task = {"agent": "build", "prompt": "x", "deadline_ms": 60_000, "auth_scope": ["read:**"], **said}
    status, problem = await api.call("POST", "/v1/tasks", who="submitter", json=task)

    assert status == 422
    assert "/v1/goals" in problem["hint"]


@pytest.mark.parametrize("agent", ["acme-merger", "acme-merge", "zzz"])
async def test_who_knows_a_commit_of_another_tenant_hears_nothing_of_its_agents(api, agent):
    card = AgentCard(name="acme-merger", mode="primary", pool="build")
    seen = ProjectCards(tenant="default", commit="c" * 40, agents=(card,))
    await api.stage.transport.announce(WorkerCard(worker="w2", pool="build", slots=1, projects=(seen,)), ttl_s=60)
    where = {"url": "https://git.example.com/a"}
    bodies = {
        "tasks": NEW | {"agent": agent},
        "goals": {"goal": "x", "agent": agent},
        "fanouts": {"agent": agent, "prompt": "x {item}", "items": ["a"]},
    }

    for kind, body in bodies.items():
        told = [
            await api.call("POST", f"/v1/{kind}", who="stranger", json={**body, "workspace": {**where, "base": base}})
            for base in ("c" * 40, "d" * 40)
        ]
        status, answer = await api.call("POST", f"/v1/{kind}", json={**body, "workspace": {**where, "base": "c" * 40}})

        assert told[0] == told[1] and told[0][0] == 422, kind
        assert "acme-merger" not in str(told[0]).replace(repr(agent), "")
        assert status == 201 if agent == "acme-merger" else "acme-merger" in answer["hint"], answer


GOING_ON = {
    "tasks/{}/resume": {"prompt": "push mine"},
    "tasks/{}/prompt": {"text": "push mine"},
    "sessions/{}/fork": {"turn": 0},
    "sessions/{}/revert": {"turn": 0},
}


@pytest.mark.parametrize("door", GOING_ON)
async def test_who_goes_on_with_a_session_has_nothing_that_its_person_allowed_for_good(api, door: str):
    terms = AskTerms(timeout_ms=1000, project="/home/op/project", approved=("bash:git push*",))
    work = await api.stage.work("by a person at the command line", asks=terms, auth_scope=("read:**", "bash:**"))
    await api.stage.transport.checkpoint(work.lease, await api.stage.transport.blobs.put(b"a session"))
    await work.end()

    path = f"/v1/{door.format(work.task_id)}"
    status, told = await api.call("POST", path, who="submitter", json=GOING_ON[door])

    assert status == 201, told
    request = await api.stage.muster.request(told["task_id"])
    assert request.task_id != work.task_id
    assert request.asks == AskTerms(timeout_ms=1000)


async def test_a_token_has_so_many_streams_and_no_more_and_gets_them_back(api):
    streams = api.app.state.streams
    streams.most = 3
    trace_id = (await api.stage.muster.record(await api.submit())).trace_id
    path = f"{api.url}/v1/traces/{trace_id}/events"
    opened = [await api.session.get(path, headers=api.auth("viewer")) for _ in range(streams.most)]

    status, problem = await api.call("GET", f"/v1/traces/{trace_id}/events", who="viewer")
    async with api.session.get(path, headers=api.auth("admin")) as others:
        assert others.status == 200
    assert ([each.status for each in opened], status) == ([200] * streams.most, 429)
    assert "3 streams are open" in problem["title"] and problem["hint"]
    opened.pop().close()  # its server hears of that in its own time
    while (again := await api.session.get(path, headers=api.auth("viewer"))).status == 429:
        again.release()
    opened.append(again)
    await api.stage.muster.cancel((await api.stage.muster.tasks())[0].task_id)
    for each in opened:
        await each.read()
    assert streams.open["viewer"] == 0
    assert (await api.call("GET", f"/v1/traces/{trace_id}/events", who="viewer"))[0] == 200


async def test_a_stream_that_breaks_ends_without_an_end_and_gives_its_place_back():
    async def events():
        yield "data: 1\n\n"
        raise Unreachable("the store is away")

    async def receive():
        return await asyncio.Event().wait()

    async def send(message):
        sent.append(message.get("body"))

    sent, streams = [], Streams()
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    await EventStream(events(), streams, "t")(scope, receive, send)

    assert sent == [None, b"data: 1\n\n", b""]
    assert streams.open["t"] == 0


async def test_a_stream_ends_with_the_token_that_opened_it(api, monkeypatch):
    monkeypatch.setattr(traces, "SILENCE_S", 0.01)
    trace_id = (await api.stage.muster.record(await api.submit())).trace_id
    async with api.session.get(f"{api.url}/v1/traces/{trace_id}/events", headers=api.auth("viewer")) as stream:
        while not (await stream.content.readline()).startswith(b"id: "):
            pass  # comments, where nothing happens
        await api.tokens.revoke("viewer")
        rest = await stream.text()

    assert "event: end" not in rest  # it is not over: it resumes where this one ends, with another token


async def test_a_body_that_comes_too_slowly_is_given_up(api, monkeypatch):
    monkeypatch.setattr(bodies, "JSON_S", 0.05)
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    auth = api.auth("admin")["Authorization"]
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: {auth}\r\nContent-Length: 1000\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n{")

    assert b" 408 " in await reader.readline()
    writer.close()
    assert await api.stage.muster.tasks() == []


async def test_of_many_who_change_the_tokens_at_once_none_undoes_anothers(redis_stage):
    tokens = Tokens(redis_stage.transport.registry)
    names = [f"t{number}" for number in range(24)]
    await asyncio.gather(*(tokens.create(name, Role.VIEWER, "default") for name in names))
    assert [token.name for token in await tokens.all()] == sorted(names)
    await asyncio.gather(*(tokens.revoke(name) for name in names[1:]))

    assert [token.name for token in await tokens.all()] == names[:1]
    twins = [(await tokens.draft("twin", Role.VIEWER, "default"))[0] for _ in "ab"]
    added = await asyncio.gather(*map(tokens.add, twins), return_exceptions=True)
    assert [type(one) for one in added].count(BadInput) == 1
    assert [token.name for token in await tokens.all()] == ["t0", "twin"]


async def test_a_token_that_was_revoked_does_not_come_back_with_its_old_file(api, tmp_path):
    """A pod is replaced, and its Secret still has the file of an older release, or of the first day."""
    old = [Token(name=name, sha256=digit * 64, role=Role.VIEWER) for name, digit in (("kept", "a"), ("gone", "b"))]
    file = tmp_path / "api-tokens.json"
    file.write_text(json.dumps([token.model_dump(mode="json") for token in old]))
    file.chmod(0o600)
    await api.tokens.take_over(file)
    await api.tokens.revoke("gone")
    await api.tokens.create("kept-too", Role.VIEWER, "default")

    await api.tokens.take_over(file)

    names = {token.name for token in await api.tokens.all()}
    assert ("kept" in names, "kept-too" in names, "gone" in names) == (True, True, False)
    assert await api.tokens.by_hash("b" * 64) is None
    file.chmod(0o644)
    with pytest.raises(BadSettings, match="can be read by others"):
        await api.tokens.take_over(file)


async def test_every_server_hears_of_a_revocation_at_once(api, redis_stage):
    """Two replicas, each with a state folder of its own."""
    other = create_app(redis_stage.muster).state.tokens
    secret = await other.create("ci", Role.VIEWER, "default")
    api.secrets["ci"] = secret
    assert (await api.call("GET", "/v1/tasks", who="ci"))[0] == 200

    await other.revoke("ci")

    assert (await api.call("GET", "/v1/tasks", who="ci"))[0] == 401


async def test_another_tenant_s_digest_leads_nowhere(api):
    """A session by its checkpoint, a bundle, an attachment: each as it comes, by the stranger's own task."""
    work = await api.work(prompt="keep it to yourself")
    with acting_for("default"):  # as its worker does
        checkpoint = await api.stage.transport.blobs.put(b"what was said in confidence")
    await api.stage.transport.checkpoint(work.lease, checkpoint)
    uploaded = (await api.call("POST", "/v1/blobs", who="submitter", data=b"a private bundle"))[1]["ref"]
    shown = [
        (await api.call("GET", path, who="viewer"))[1]
        for path in (f"/v1/tasks/{work.task_id}", "/v1/tasks", f"/v1/sessions/{work.task_id}", "/v1/sessions")
    ]
    assert checkpoint not in json.dumps(shown)

    found: list[bytes] = []

    async def handle(delivery: Delivery) -> TaskResult:
        with suppress(NotFound):
            found.append(await api.stage.transport.blobs.get(delivery.request.input.params["digest"]))
        lease = delivery.claim.lease
        return TaskResult(task_id=lease.task_id, trace_id=lease.trace_id, attempt=lease.attempt, status=State.COMPLETED)

    async with api.stage.serving("build", handle):
        for who in ("stranger", "submitter"):
            for digest in (checkpoint, uploaded):
                await anext(api.stage.transport.results([await api.submit(who=who, params={"digest": digest})]))
            if who == "stranger":
                assert found == []
    assert found == [b"what was said in confidence", b"a private bundle"]


async def test_what_a_read_only_token_had_looked_at_answers_no_person(api):
    """With a diff that tells the model what to say, it asks what a person will ask of the clean commit."""
    review = AgentCard(name="review", mode="subagent", pool="explore", auth_scope=("read:**", "grep:**"))
    await api.stage.transport.announce(WorkerCard(worker="e", pool="explore", slots=1, agents=(review,)), ttl_s=600)
    api.secrets["fork"] = await api.tokens.create("fork", Role.SUBMITTER, "default", read_only=True)

    async def handle(delivery: Delivery) -> TaskResult:
        task = delivery.request
        text = "yes" if task.workspace and task.workspace.changes else "no"
        said = {"trace_id": task.trace_id, "task_id": task.task_id, "attempt": delivery.claim.lease.attempt}
        return TaskResult(**said, status=State.COMPLETED, output=Output(text=text))

    async def ask(who: str, workspace: dict[str, Any]) -> str:
        body = {"agent": "review", "prompt": "Is {item} safe?", "items": ["src/a.py"], "workspace": workspace}
        status, told = await api.call("POST", "/v1/fanouts", who=who, json=body)
        assert status in (200, 201), told
        async for _ in api.stage.muster.results([told["task_id"]]):
            pass
        _, text = await api.call("GET", f"/v1/tasks/{told['task_id']}/attachments/answers.jsonl", who=who)
        return json.loads(text.splitlines()[0])["text"]

    where = {"url": "https://git.example.com/ours.git", "base": "a" * 40}
    async with api.stage.orchestrator(), api.stage.serving("explore", handle):
        _, blob = await api.call("POST", "/v1/blobs", who="fork", data=b"diff --git a/x b/x\n")
        forged = await ask("fork", {**where, "changes": blob["ref"]})
        answer = await ask("submitter", where)

    assert (forged, answer) == ("yes", "no")
