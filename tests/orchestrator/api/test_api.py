"""What the API does, who may call it, and how it refuses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from unittest.mock import AsyncMock

import pytest

from envelope.agents import WorkerCard
from envelope.events import AskOpened, TurnStarted
from envelope.lifecycle import State
from envelope.messages import Output, TaskProgress, TaskResult
from orchestrator.api.bodies import MAX_BLOB_BYTES, MAX_JSON_BYTES
from orchestrator.api.rates import Rates
from orchestrator.api.tokens import ALL_TENANTS, PERMITS, Right, Role
from orchestrator.webhooks.config import Webhook
from orchestrator.webhooks.links import PATH, Links, Mark
from transport.base import Claim, Wait
from workers.agents.base import Agent
from workers.agents.registry import card as card_of
from workers.agents.registry import parse_agent

pytestmark = pytest.mark.redis

NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}
PUSH = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push",), detail="git push origin main")
NOBODY = "01900000-0000-7000-8000-000000000000"
# Each route, and the right that it takes. A route that is missing here fails a test.
ROUTES = {
    ("POST", "/v1/tasks"): Right.SUBMIT,
    ("POST", "/v1/goals"): Right.SUBMIT,
    ("POST", "/v1/fanouts"): Right.SUBMIT,
    ("POST", "/v1/batches"): Right.SUBMIT,
    ("POST", "/v1/batches/preview"): Right.SUBMIT,
    ("POST", "/v1/batches/{task_id}/diff"): Right.SUBMIT,
    ("POST", "/v1/batches/{task_id}/retry"): Right.SUBMIT,
    ("GET", "/v1/batches/{task_id}/status"): Right.SEE,
    ("GET", "/v1/batches/{task_id}/report"): Right.SEE,
    ("GET", "/v1/batches/{task_id}/overlaps"): Right.SEE,
    ("POST", "/v1/tasks/{task_id}/publications"): Right.PUBLISH,
    ("POST", "/v1/tasks/{task_id}/publications/comment"): Right.PUBLISH,
    ("POST", "/v1/tasks/{task_id}/publications/close"): Right.PUBLISH,
    ("POST", "/v1/publications/sync"): Right.PUBLISH,
    ("GET", "/v1/tasks/{task_id}/publications"): Right.SEE,
    ("GET", "/v1/publications"): Right.SEE,
    ("GET", "/v1/tasks"): Right.SEE,
    ("GET", "/v1/tasks/{task_id}"): Right.SEE,
    ("GET", "/v1/tasks/{task_id}/tree"): Right.SEE,
    ("GET", "/v1/tasks/{task_id}/cost"): Right.SEE,
    ("POST", "/v1/tasks/{task_id}/resume"): Right.SUBMIT,
    ("GET", "/v1/tasks/{task_id}/plan"): Right.SEE,
    ("POST", "/v1/tasks/{task_id}/replan"): Right.SUBMIT,
    ("GET", "/v1/tasks/{task_id}/diff"): Right.SEE,
    ("GET", "/v1/tasks/{task_id}/attachments/{name}"): Right.SEE,
    ("POST", "/v1/tasks/{task_id}/cancel"): Right.SUBMIT,
    ("POST", "/v1/tasks/{task_id}/prompt"): Right.SUBMIT,
    ("POST", "/v1/blobs"): Right.SUBMIT,
    ("GET", "/v1/sessions"): Right.SEE,
    ("GET", "/v1/sessions/{task_id}"): Right.SEE,
    ("POST", "/v1/sessions/{task_id}/fork"): Right.SUBMIT,
    ("POST", "/v1/sessions/{task_id}/revert"): Right.SUBMIT,
    ("PUT", "/v1/sessions/{task_id}/archived"): Right.SUBMIT,
    ("GET", "/v1/sessions/{task_id}/export"): Right.SEE,
    ("GET", "/v1/traces/{trace_id}"): Right.SEE,
    ("GET", "/v1/traces/{trace_id}/events"): Right.SEE,
    ("GET", "/v1/traces/{trace_id}/budget"): Right.SEE,
    ("POST", "/v1/traces/{trace_id}/budget"): Right.APPROVE,
    ("GET", "/v1/tenants/{tenant}/budget"): Right.SEE,
    ("PUT", "/v1/tenants/{tenant}/budget"): Right.OPERATE,
    ("GET", "/v1/asks"): Right.SEE,
    ("GET", "/v1/asks/{ask_id}"): Right.SEE,
    ("POST", "/v1/asks/{ask_id}/answer"): Right.APPROVE,
    ("GET", "/v1/agents"): Right.SEE,
    ("GET", "/v1/workers"): Right.SEE,
    ("GET", "/v1/pools"): Right.SEE,
    ("GET", "/v1/dead-letters"): Right.OPERATE,
    ("POST", "/v1/dead-letters/{task_id}/requeue"): Right.OPERATE,
    ("DELETE", "/v1/dead-letters/{task_id}"): Right.OPERATE,
    ("GET", "/v1/tenants/{tenant}/allotment"): Right.SEE,
    ("PUT", "/v1/tenants/{tenant}/allotment"): Right.OPERATE,
    ("GET", "/v1/audit"): Right.OPERATE,
    ("GET", "/v1/audit/verify"): Right.OPERATE,
}
# For tokens of all tenants alone, and none of those here is one: see `test_api_operating.py`.
OF_ALL = {("PUT", "/v1/tenants/{tenant}/allotment")}
# Whoever has the link: it is signed.
LINKED = {("GET", "/v1/answers/{token}"), ("POST", "/v1/answers/{token}")}
BODIES = {
    "/v1/tasks": {"json": NEW},
    "/v1/tasks/{task_id}/publications": {"json": {}},
    "/v1/tasks/{task_id}/publications/comment": {"json": {"text": "more"}},
    "/v1/batches": {"json": {}},
    "/v1/batches/preview": {"json": {}},
    "/v1/batches/{task_id}/diff": {"json": {}},
    "/v1/goals": {"json": {"goal": "do it"}},
    "/v1/fanouts": {"json": {"agent": "build", "prompt": "look at {item}", "items": ["one"]}},
    "/v1/blobs": {"data": b"bytes"},
    "/v1/tasks/{task_id}/cancel": {"json": {}},
    "/v1/tasks/{task_id}/prompt": {"json": {"text": "more"}},
    "/v1/tasks/{task_id}/resume": {"json": {}},
    "/v1/tasks/{task_id}/replan": {"json": {}},
    "/v1/sessions/{task_id}/fork": {"json": {}},
    "/v1/sessions/{task_id}/revert": {"json": {"turn": 1}},
    "/v1/sessions/{task_id}/archived": {"json": {}},
    "/v1/tenants/{tenant}/allotment": {"json": {}},
    "/v1/traces/{trace_id}/budget": {"json": {"cap_microusd": 5}},
    "/v1/tenants/{tenant}/budget": {"json": {"cap_microusd": 5}},
    "/v1/asks/{ask_id}/answer": {"json": {"choice": "once"}},
}
FILLED = {"task_id": NOBODY, "trace_id": "0" * 32, "ask_id": "ask_none", "name": "x", "tenant": "default"}


async def claimed(api) -> Claim:
    [claim] = await api.stage.transport.claim("build", "w", slots=1, wait_s=5)
    return claim


def said(claim: Claim) -> dict:
    lease = claim.lease
    return {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}


async def finish(api, claim: Claim, text: str = "done") -> None:
    result = TaskResult(**said(claim), status=State.COMPLETED, output=Output(text=text))
    await api.stage.transport.finish(claim.lease, result)


async def asking(api) -> str:
    """A task that waits for an answer; its id."""
    task_id = await api.submit()
    claim = await claimed(api)
    progress = TaskProgress(**said(claim), seq=0, at_ms=1, status=State.RUNNING, events=(PUSH,))
    await api.stage.transport.emit(claim.lease, progress)
    assert await api.stage.transport.park(claim.lease, Wait(asks=frozenset({PUSH.ask_id})))
    return task_id


async def test_one_prompt_goes_to_many_items_once(api):
    ask = {"agent": "build", "prompt": "look at {path}", "items": [{"path": "a"}, {"path": "b"}], "gather": "first"}
    first = await api.call("POST", "/v1/fanouts", who="submitter", json=ask)
    again = await api.call("POST", "/v1/fanouts", who="submitter", json=ask)
    same = await api.call("POST", "/v1/fanouts", who="submitter", json={**ask, "prompt": "look"})
    wide = {**ask, "gather": "quorum", "quorum": 3}

    assert (first[0], again[0], again[1]["task_id"]) == (201, 200, first[1]["task_id"])
    assert (same[0], same[1]["title"]) == (422, "the prompt would be the same for every item")
    assert (await api.call("POST", "/v1/fanouts", who="submitter", json=wide))[0] == 422
    request = await api.stage.muster.request(first[1]["task_id"])
    assert (request.sender, request.input.params["policy"], request.input.params["count"]) == (
        "api:submitter",
        "first",
        2,
    )


@pytest.mark.parametrize("role", Role)
async def test_each_role_may_call_what_its_rights_say_and_nothing_else(api, role):
    allowed, expected = {}, {}
    for (method, path), right in ROUTES.items():
        status, _ = await api.call(method, path.format(**FILLED), who=role.value, **BODIES.get(path, {}))
        allowed[method, path] = status not in (401, 403)
        expected[method, path] = right in PERMITS[role] and (method, path) not in OF_ALL

    assert allowed == expected


async def test_the_matrix_has_every_route_and_none_works_without_a_token(api):
    status, description = await api.call("GET", "/openapi.json", who="nobody")
    routes = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}

    assert status == 200
    assert routes == set(ROUTES) | LINKED
    for method, path in ROUTES:
        status, problem = await api.call(method, path.format(**FILLED), who="nobody", **BODIES.get(path, {}))
        assert (status, problem["title"]) == (401, "a token is needed")


async def test_a_task_is_handed_over_once_for_one_key_and_its_result_read(api):
    headers = {"Idempotency-Key": "nightly-1"}
    first = await api.call("POST", "/v1/tasks", json=NEW, headers=headers)
    again = await api.call("POST", "/v1/tasks", json=NEW, headers=headers)
    task_id = first[1]["task_id"]
    waiting = await api.call("GET", f"/v1/tasks/{task_id}")
    early = await api.call("GET", f"/v1/tasks/{task_id}/diff")
    await finish(api, await claimed(api))
    ended = await api.call("GET", f"/v1/tasks/{task_id}")

    assert (first[0], first[1]["existing"]) == (201, False)
    assert (again[0], again[1]) == (200, {**first[1], "existing": True})
    assert (waiting[1]["record"]["state"], waiting[1]["result"]) == ("pending", None)
    assert early[0] == 409
    assert (ended[1]["record"]["state"], ended[1]["result"]["output"]["text"]) == ("completed", "done")
    assert (await api.call("GET", f"/v1/tasks/{task_id}/diff")) == (200, "")
    assert [task["task_id"] for task in (await api.call("GET", "/v1/tasks"))[1]] == [task_id]


async def test_decisions_are_listed_for_admins_of_their_tenant(api):
    api.secrets["operator"] = api.tokens.create("operator", Role.ADMIN, ALL_TENANTS)
    task_id = await asking(api)
    await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "once"})
    await api.call("POST", f"/v1/tasks/{task_id}/cancel", who="submitter", json={"reason": "enough"})
    status, entries = await api.call("GET", "/v1/audit", params={"subject": task_id})
    checked = await api.call("GET", "/v1/audit/verify")

    assert status == 200
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("api:submitter", "cancel"),
        ("api:approver", "answer"),
    ]
    assert entries[1]["details"] == {"ask": "ask_1", "answer": '{"choice":"once"}'}
    assert checked == (200, {"entries": 2, "sealed": 0, "breaks": []})
    assert await api.call("GET", "/v1/audit", who="stranger") == (200, [])
    assert await api.call("GET", "/v1/audit", who="operator", params={"limit": 1}) == (200, entries[:1])


async def test_another_tenants_tasks_are_not_there(api):
    task_id = await asking(api)
    trace_id = (await api.stage.muster.record(task_id)).trace_id

    theirs = {"task_id": task_id, "trace_id": trace_id, "ask_id": "ask_1", "name": "x", "tenant": "default"}
    for method, path in ROUTES:
        if "{" in path:
            status, _ = await api.call(method, path.format(**theirs), who="stranger", **BODIES.get(path, {}))
            assert status == 404, (method, path)
    assert (await api.call("POST", "/v1/tasks", who="stranger", json={**NEW, "resume_token": task_id}))[0] == 404
    for path in ("/v1/dead-letters", "/v1/audit"):
        assert await api.call("GET", path, who="stranger") == (200, [])
    assert await api.call("GET", "/v1/asks", who="stranger") == (200, [])
    assert await api.call("GET", "/v1/tasks", who="stranger") == (200, [])
    assert await api.call("GET", "/v1/sessions", who="stranger") == (200, [])
    assert await api.call("GET", "/v1/publications", who="stranger") == (200, [])
    _, missing = await api.call("GET", f"/v1/tasks/{NOBODY}", who="stranger")
    _, others = await api.call("GET", f"/v1/tasks/{task_id}", who="stranger")
    assert others == {**missing, "title": missing["title"].replace(NOBODY, task_id)}


async def test_an_ask_is_looked_for_among_the_callers_tasks_alone(api, monkeypatch):
    await asking(api)
    mine = await api.submit(who="stranger")
    transport = api.stage.transport
    trace_id = (await transport.record(mine)).trace_id
    tasks, roots = (AsyncMock(side_effect=real) for real in (transport.tasks, transport.roots))
    monkeypatch.setattr(transport, "tasks", tasks)
    monkeypatch.setattr(transport, "roots", roots)

    async def answer(ask_id: str) -> int:
        return (await api.call("POST", f"/v1/asks/{ask_id}/answer", who="stranger", json={"choice": "once"}))[0]

    assert [await answer("x" * 100), await answer(mine)] == [404, 404]
    assert (tasks.await_count, roots.await_count) == (0, 0)
    assert [await answer("ask_none"), await answer(PUSH.ask_id)] == [404, 404]
    assert {call.kwargs["trace_id"] for call in tasks.await_args_list} == {trace_id}
    assert {call.kwargs["tenant"] for call in roots.await_args_list} == {"elsewhere"}


async def test_a_tenants_tasks_are_listed_page_by_page_and_by_state(api):
    mine = [await api.submit() for _ in range(5)]
    await api.submit(who="stranger")
    await api.call("POST", f"/v1/tasks/{mine[1]}/cancel", json={})

    async def page(**asked) -> tuple[list[str], str]:
        address = f"{api.url}/v1/tasks"
        async with api.session.get(address, headers=api.auth("viewer"), params=asked) as response:
            return [task["task_id"] for task in await response.json()], response.headers.get("Next-Cursor", "")

    first, cursor = await page(limit=3)
    rest, end = await page(limit=3, cursor=cursor)
    cancelled = await page(state="cancelled")
    full = await page(state="pending", limit=4)

    assert sorted([*first, *rest]) == sorted(mine)
    assert (len(first), len(rest), end) == (3, 2, "")
    assert cancelled == ([mine[1]], "")
    assert sorted(full[0]) == sorted(set(mine) - {mine[1]})
    wrong, problem = await api.call("GET", "/v1/tasks?cursor=none")
    assert (wrong, problem["title"].partition(":")[0]) == (422, "cursor")


async def test_who_submits_is_its_tenant(api):
    task_id = await api.submit(who="stranger")
    assert (await api.stage.muster.request(task_id)).tenant == "elsewhere"


async def test_events_are_streamed_and_resumed_to_the_end(api):
    await api.submit()
    claim = await claimed(api)
    turn = TaskProgress(**said(claim), seq=0, at_ms=1, status=State.RUNNING, events=(TurnStarted(turn=1),))
    await api.stage.transport.emit(claim.lease, turn)
    path = f"{api.url}/v1/traces/{claim.lease.trace_id}/events"
    async with api.session.get(path, headers=api.auth("viewer")) as stream:
        first = [await read_event(stream) for _ in range(2)]  # pending and running come of the queue
        await finish(api, claim)
        rest = await read_all(stream)
    resumed = {"Last-Event-ID": first[-1]["id"], **api.auth("viewer")}
    async with api.session.get(path, headers=resumed) as stream:
        again = await read_all(stream)

    assert rest == again
    assert rest[-1]["event"] == "end"
    assert rest[-2]["data"]["kind"] == "result"
    told = [event for one in [*first, *rest] for event in one["data"].get("events", ())]
    assert {"kind": "turn_started", "turn": 1, "model": "", "window_tokens": 0} in told


async def read_event(stream) -> dict:
    event: dict = {}
    async for line in stream.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if not name and event:
            return event
        if name in ("id", "event", "data"):
            event[name] = json.loads(value) if name == "data" else value
    return event


async def read_all(stream) -> list[dict]:
    events = []
    while event := await read_event(stream):
        events.append(event)
    return events


async def test_the_tree_is_the_fold_of_the_events(api):
    task_id = await asking(api)
    trace_id = (await api.stage.muster.record(task_id)).trace_id

    status, tree = await api.call("GET", f"/v1/traces/{trace_id}")

    assert (status, tree["root"]) == (200, task_id)
    assert tree["tasks"][task_id]["state"] == "waiting"
    assert "ask_1" in tree["tasks"][task_id]["asks"]


async def test_an_ask_is_shown_with_its_command_and_answered_once(api):
    await asking(api)
    shown = await api.call("GET", "/v1/asks/ask_1", who="viewer")
    wrong = await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "perhaps"})
    api.secrets["second"] = api.tokens.create("second", Role.APPROVER, "default")
    first = await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "once"})
    late = await api.call("POST", "/v1/asks/ask_1/answer", who="second", json={"choice": "reject"})

    assert shown[1]["ask"]["detail"] == "git push origin main"
    assert (wrong[0], wrong[1]["title"]) == (422, "'perhaps' is no answer")
    assert (first[0], first[1]["by"]) == (200, "api:approver")
    assert (late[0], late[1]["title"]) == (409, "api:approver has answered this already: once")
    missing = await api.call("POST", "/v1/asks/ask_none/answer", who="second", json={"choice": "once"})
    strangers = await api.call("POST", "/v1/asks/ask_1/answer", who="stranger", json={"choice": "once"})
    assert (missing[0], strangers[0]) == (404, 404)


async def test_of_two_who_answer_at_once_one_is_told_that_the_other_was_first(api):
    task_id = await asking(api)
    names = ["one", "two"]
    for name in names:
        api.secrets[name] = api.tokens.create(name, Role.APPROVER, "default")

    told = await asyncio.gather(
        *(api.call("POST", "/v1/asks/ask_1/answer", who=name, json={"choice": "reject"}) for name in names)
    )

    [standing] = (await api.stage.transport.answers(task_id)).values()
    assert sorted(status for status, _ in told) == [200, 409]
    won, lost = (next(said for status, said in told if status == wanted) for wanted in (200, 409))
    assert won["by"] == standing.by
    assert lost["title"] == f"{standing.by} has answered this already: reject"


async def test_a_reader_whose_place_was_trimmed_gets_the_whole_tree_again(api):
    task_id = await api.submit()
    claim = await claimed(api)
    trace_id = claim.lease.trace_id
    first = (await api.call("GET", f"/v1/traces/{trace_id}"))[1]
    for turn in range(1, 5):
        event = TaskProgress(
            **said(claim), seq=turn, at_ms=turn, status=State.RUNNING, events=(TurnStarted(turn=turn),)
        )
        await api.stage.transport.emit(claim.lease, event)
    cell = api.stage.transport._cells.of_trace(trace_id)
    await cell.client.call("XTRIM", cell.keys.name("events", trace_id), "MAXLEN", 1)
    await finish(api, claim)

    tree = (await api.call("GET", f"/v1/traces/{trace_id}"))[1]
    cut = {"Last-Event-ID": first["cursor"], **api.auth("viewer")}
    async with api.session.get(f"{api.url}/v1/traces/{trace_id}/events", headers=cut) as stream:
        events = await read_all(stream)

    assert tree["tasks"][task_id]["state"] == "completed"
    assert "resynced" in [event["kind"] for event in events[0]["data"]["events"]]
    assert (events[-2]["data"]["kind"], events[-1]["event"]) == ("result", "end")


async def test_a_budget_is_raised(api):
    task_id = await api.submit(budget={"max_cost_microusd": 10})
    trace_id = (await api.stage.muster.record(task_id)).trace_id

    status, money = await api.call("POST", f"/v1/traces/{trace_id}/budget", json={"cap_microusd": 99})

    shown = await api.call("GET", f"/v1/traces/{trace_id}/budget", who="viewer")
    assert (status, money["cap_microusd"]) == (200, 99)
    assert shown == (200, {"ledger": money, "parts": {}, "reserved": {}, "waiting": []})


async def test_a_tenants_budget_is_capped_and_shown_and_raised_by_who_sees_all(api):
    api.secrets["fleet"] = api.tokens.create("fleet", Role.ADMIN, ALL_TENANTS)

    async def cap(microusd: int | None, who: str = "admin") -> tuple[int, int | None]:
        said = {"json": {"cap_microusd": microusd}}
        status, told = await api.call("PUT", "/v1/tenants/default/budget", who=who, **said)
        return status, told.get("cap_microusd")

    assert [await cap(7), await cap(5), await cap(5)] == [(200, 7), (200, 5), (200, 5)]
    assert [(await cap(more))[0] for more in (6, None, -1)] == [403, 403, 422]
    shown = await api.call("GET", "/v1/tenants/default/budget", who="viewer")
    assert shown == (200, {"spent_microusd": 0, "reserved_microusd": 0, "cap_microusd": 5})
    assert [await cap(9, "fleet"), await cap(None, "fleet")] == [(200, 9), (200, None)]


async def test_a_bundle_is_stored_and_named_by_its_hash(api):
    status, stored = await api.call("POST", "/v1/blobs", data=b"a bundle")
    assert status == 201
    assert await api.stage.transport.blobs.get(stored["ref"]) == b"a bundle"


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ({**NEW, "promt": "x"}, "promt"),
        ({**NEW, "deadline_ms": 0}, "deadline_ms"),
        ({**NEW, "agent": "biuld"}, "there is no agent 'biuld'"),
        ({**NEW, "workspace": {"path": "/etc", "base": "a" * 40}}, "workspace.path"),
        ({**NEW, "workspace": {"url": "https://h/x", "base": "a" * 40, "trusted": "x"}}, "workspace.trusted"),
        ({**NEW, "workspace": {"url": "https://user:word@h/x", "base": "a" * 40}}, "a password or a token"),
        ({**NEW, "budget": {"max_cost_microusd": -1}}, "max_cost_microusd"),
    ],
)
async def test_a_task_that_cannot_be_is_a_problem_with_the_field_and_submits_nothing(api, body, title):
    status, problem = await api.call("POST", "/v1/tasks", json=body)

    assert (status, problem["status"]) == (422, 422)
    assert title in problem["title"]
    assert "word@" not in str(problem)
    assert await api.stage.muster.tasks() == []


@pytest.mark.parametrize(
    ("path", "size"), [("/v1/tasks", MAX_JSON_BYTES + 1), ("/v1/blobs", MAX_BLOB_BYTES + 1), ("/v1/tasks", 100_000_000)]
)
async def test_a_body_without_an_end_is_refused_at_its_limit(api, path, size):
    async def endless():
        left = size
        while left > 0:
            yield b"x" * min(left, 1 << 20)
            left -= 1 << 20

    try:
        status, _ = await api.call("POST", path, data=endless())
    except OSError:  # the server hung up on what it does not want
        return
    assert status == 413


async def test_a_body_that_says_that_it_is_too_large_is_not_read(api):
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    auth = api.auth("admin")["Authorization"]
    writer.write(
        f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: {auth}\r\nContent-Length: 100000000\r\n\r\n".encode()
    )
    assert b" 413 " in await reader.readline()
    writer.close()


async def test_what_is_not_json_is_a_problem(api):
    headers = {"Content-Type": "application/json"}
    for junk in (b"{", b"\xff\xfe", b"[" * 100_000, b""):
        status, problem = await api.call("POST", "/v1/tasks", data=junk, headers=headers)
        assert (status, problem["status"]) in ((422, 422), (400, 400))
    assert (await api.call("GET", "/nothing"))[0] == 404
    assert (await api.call("PUT", "/v1/tasks"))[0] == 405


async def test_a_revoked_token_is_refused_at_the_next_call(api):
    assert (await api.call("GET", "/v1/pools", who="viewer"))[0] == 200
    api.tokens.revoke("viewer")
    assert (await api.call("GET", "/v1/pools", who="viewer"))[0] == 401


async def test_health_needs_no_token(api):
    assert await api.call("GET", "/healthz", who="nobody") == (200, {"status": "ok"})
    assert await api.call("GET", "/readyz", who="nobody") == (200, {"status": "ready"})


def test_a_bucket_empties_and_fills_again():
    now = [0.0]
    rates = Rates(per_s=2, burst=3, clock=lambda: now[0])

    assert [rates.take("a") for _ in range(3)] == [0, 0, 0]
    assert rates.take("a") == pytest.approx(0.5)
    assert rates.take("b") == 0
    now[0] = 0.5
    assert rates.take("a") == 0
    now[0] = 100
    assert [rates.take("a") > 0 for _ in range(4)] == [False, False, False, True]


async def linked(api, **changes) -> str:
    """The path by which the webhook `chat` answers the ask of a task that waits."""
    hook = Webhook(url="https://example.org/", secret_env="X", may_answer=True)
    api.stage.muster.settings = api.stage.muster.settings.model_copy(update={"webhooks": {"chat": hook}})
    until_ms = await api.stage.transport.now_ms() + 600_000
    mark = {"task_id": await asking(api), "ask_id": PUSH.ask_id, "hook": "chat", "until_ms": until_ms, **changes}
    return PATH + Links(api.stage.transport.keyring).token(Mark(**mark))


async def test_whoever_has_its_link_answers_an_ask_once(api):
    path = await linked(api)
    seen = await api.call("GET", path, who="nobody")
    wrong = await api.call("POST", path, who="nobody", json={"choice": "maybe"})
    answered = await api.call("POST", path, who="nobody", json={"choice": "once"})
    again = await api.call("POST", path, who="nobody", json={"choice": "reject"})

    assert (seen[0], seen[1]["ask"]["detail"]) == (200, "git push origin main")
    assert wrong[0] == 422
    assert (answered[0], answered[1]["by"]) == (200, "webhook:chat")
    assert (again[0], again[1]["title"]) == (404, "this ask is not open any more")
    [entry] = await api.stage.transport.audit.latest(5)
    assert (entry.fields["actor"], entry.fields["action"]) == ("webhook:chat", "answer")


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"hook": "other"}, 403), ({"until_ms": 5}, 404), ({"ask_id": "ask_2"}, 404), ({"task_id": NOBODY}, 404)],
)
async def test_a_link_answers_nothing_else(api, changes, status):
    path = await linked(api, **changes)

    assert (await api.call("POST", path, who="nobody", json={"choice": "once"}))[0] == status
    assert len(await api.stage.muster.asks()) == 1


async def test_a_link_that_nobody_signed_answers_nothing(api):
    status, problem = await api.call("POST", f"{PATH}a.b.c", who="nobody", json={"choice": "once"})

    assert (status, problem["title"]) == (403, "this link answers nothing")


async def test_a_session_is_listed_put_away_and_busy_while_it_runs(api):
    task_id = await api.submit(prompt="say it")
    claim = await claimed(api)
    await api.stage.transport.checkpoint(claim.lease, await api.stage.transport.blobs.put(b"a session"))

    running = await api.call("GET", "/v1/sessions", who="viewer")
    busy = await api.call("POST", f"/v1/tasks/{task_id}/resume", json={})
    count = len(await api.stage.muster.tasks())
    await finish(api, claim)
    away = await api.call("PUT", f"/v1/sessions/{task_id}/archived", json={})
    listed = [(await api.call("GET", f"/v1/sessions?archived={flag}"))[1] for flag in ("false", "true")]
    resumed = await api.call("POST", f"/v1/tasks/{task_id}/resume", json={"prompt": "go on", "deadline_ms": 5})
    never = await api.call("GET", f"/v1/sessions/{resumed[1]['task_id']}/export")

    assert [(row["session_id"], row["state"], row["title"]) for row in running[1]] == [(task_id, "running", "say it")]
    assert (busy[0], busy[1]["hint"]) == (409, "prompt it, or wait for it")
    assert count == 1
    assert away == (200, {"archived": True})
    assert [[row["session_id"] for row in rows] for rows in listed] == [[], [task_id]]
    assert resumed[0] == 201
    assert never[0] == 404


async def test_an_agent_is_told_with_every_field_of_the_catalogue(api):
    card = card_of(
        parse_agent(
            "tuned",
            "---\ndescription: Tuned.\nmode: subagent\nsteps: 7\ntemperature: 0.5\ntop_p: 0.9\n"
            "color: '#ff0000'\nmodel: a/model\n---\nDo it.\n",
        )
    )
    await api.stage.transport.announce(WorkerCard(worker="w2", pool="build", slots=1, agents=(card,)), ttl_s=60)

    _, agents = await api.call("GET", "/v1/agents", who="viewer")

    tuned = next(agent for agent in agents if agent["name"] == "tuned")
    kept_here = {"prompt", "disabled", "fixed", "returns_patch", "counts_tests", "stops_at_failure"}
    kept_here |= {"command", "env", "session_mode"}  # of a program that leads it
    assert {field.name for field in fields(Agent)} - kept_here == tuned.keys()
    assert (tuned["max_turns"], tuned["temperature"], tuned["top_p"], tuned["color"]) == (7, 0.5, 0.9, "#ff0000")
