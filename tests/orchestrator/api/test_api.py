"""What the API does, and who may call it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from envelope.agents import WorkerCard
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import Output
from orchestrator.api.tokens import ALL_TENANTS, PERMITS, Right, Role
from orchestrator.submit import GoalParams, params_of, task_request
from transport.approvals import RECORDED
from transport.base import Wait
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
    ("POST", "/v1/tasks/{task_id}/background"): Right.SUBMIT,
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
    other = await api.call("POST", "/v1/tasks", json={**NEW, "prompt": "something else"}, headers=headers)
    task_id = first[1]["task_id"]
    waiting = await api.call("GET", f"/v1/tasks/{task_id}")
    early = await api.call("GET", f"/v1/tasks/{task_id}/diff")
    await (await api.stage.claimed()).end(output=Output(text="done"))
    ended = await api.call("GET", f"/v1/tasks/{task_id}")

    assert (first[0], first[1]["existing"]) == (201, False)
    assert (again[0], again[1]) == (200, {**first[1], "existing": True})
    assert (other[0], task_id in other[1]["title"]) == (422, True)
    assert (waiting[1]["record"]["state"], waiting[1]["result"]) == ("pending", None)
    assert early[0] == 409
    assert (ended[1]["record"]["state"], ended[1]["result"]["output"]["text"]) == ("completed", "done")
    assert (await api.call("GET", f"/v1/tasks/{task_id}/diff")) == (200, "")
    assert [task["task_id"] for task in (await api.call("GET", "/v1/tasks"))[1]] == [task_id]


async def test_decisions_are_listed_for_admins_of_their_tenant(api):
    api.secrets["operator"] = await api.tokens.create("operator", Role.ADMIN, ALL_TENANTS)
    task_id = await (await api.work()).ask(PUSH)
    await api.call("POST", "/v1/asks/ask_1/answer", who="approver", json={"choice": "once"})
    await api.call("POST", f"/v1/tasks/{task_id}/cancel", who="submitter", json={"reason": "enough"})
    status, entries = await api.call("GET", "/v1/audit", params={"subject": task_id})
    checked = await api.call("GET", "/v1/audit/verify")

    assert status == 200
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("api:submitter", "cancel"),
        ("api:approver", "answer"),
    ]
    details = entries[1]["details"]
    assert (details["ask"], details["answer"]) == ("ask_1", '{"choice":"once"}')
    assert details.keys() == {"ask", "answer", *RECORDED}  # with what proves that a person gave it
    assert checked == (200, {"entries": 2, "sealed": 0, "breaks": [], "unsigned": []})
    assert await api.call("GET", "/v1/audit", who="stranger") == (200, [])
    assert await api.call("GET", "/v1/audit", who="operator", params={"limit": 1}) == (200, entries[:1])


async def test_another_tenants_tasks_are_not_there(api):
    task_id = await (await api.work()).ask(PUSH)
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


async def test_a_budget_is_raised(api):
    task_id = await api.submit(budget={"max_cost_microusd": 10})
    trace_id = (await api.stage.muster.record(task_id)).trace_id

    status, money = await api.call("POST", f"/v1/traces/{trace_id}/budget", json={"cap_microusd": 99})

    shown = await api.call("GET", f"/v1/traces/{trace_id}/budget", who="viewer")
    assert (status, money["cap_microusd"]) == (200, 99)
    assert shown == (200, {"ledger": money, "parts": {}, "reserved": {}, "waiting": []})


async def test_a_tenants_budget_is_capped_and_shown_and_raised_by_who_sees_all(api):
    api.secrets["fleet"] = await api.tokens.create("fleet", Role.ADMIN, ALL_TENANTS)

    async def cap(microusd: int | None, who: str = "admin") -> tuple[int, int | None]:
        said = {"json": {"cap_microusd": microusd}}
        status, told = await api.call("PUT", "/v1/tenants/default/budget", who=who, **said)
        return status, told.get("cap_microusd")

    assert [await cap(7), await cap(5), await cap(5)] == [(200, 7), (200, 5), (200, 5)]
    assert [(await cap(more))[0] for more in (6, None, -1)] == [403, 403, 422]
    shown = await api.call("GET", "/v1/tenants/default/budget", who="viewer")
    assert shown == (200, {"spent_microusd": 0, "reserved_microusd": 0, "cap_microusd": 5})
    assert [await cap(9, "fleet"), await cap(None, "fleet")] == [(200, 9), (200, None)]
    for what in ("budget", "allotment"):  # a tenant may be called so
        assert (await api.call("GET", f"/v1/tenants/team/a/{what}", who="fleet"))[0] == 200


async def test_a_bundle_is_stored_and_named_by_its_hash(api):
    status, stored = await api.call("POST", "/v1/blobs", data=b"a bundle")
    assert status == 201
    assert await api.stage.transport.blobs.get(stored["ref"]) == b"a bundle"


async def test_a_revoked_token_is_refused_at_the_next_call(api):
    assert (await api.call("GET", "/v1/pools", who="viewer"))[0] == 200
    await api.tokens.revoke("viewer")
    assert (await api.call("GET", "/v1/pools", who="viewer"))[0] == 401


async def test_health_needs_no_token(api):
    assert await api.call("GET", "/healthz", who="nobody") == (200, {"status": "ok"})
    assert await api.call("GET", "/readyz", who="nobody") == (200, {"status": "ready"})


async def test_a_session_is_listed_put_away_and_busy_while_it_runs(api):
    work = await api.work(prompt="say it")
    task_id = work.task_id
    await api.stage.transport.checkpoint(work.lease, await api.stage.transport.blobs.put(b"a session"))

    running = await api.call("GET", "/v1/sessions", who="viewer")
    busy = await api.call("POST", f"/v1/tasks/{task_id}/resume", json={})
    count = len(await api.stage.muster.tasks())
    await work.end()
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


async def test_a_subagent_goes_to_the_background(api):
    caller = await api.work()
    parent = await api.stage.muster.request(caller.task_id)
    fields = {"agent": "build", "pool": "build", "auth_scope": (), "deadline_ms": 50_000, "prompt": "look"}
    child = task_request(parent=parent, tenant="default", **fields)
    await api.stage.muster.submit_many([child])
    await api.stage.transport.park(caller.lease, Wait(children=frozenset({child.task_id})))
    path = f"/v1/tasks/{child.task_id}/background"

    hidden = await api.call("POST", path, who="stranger")
    sent = await api.call("POST", path, who="submitter")
    none = await api.call("POST", f"/v1/tasks/{caller.task_id}/background", who="submitter")

    assert (hidden[0], sent) == (404, (200, {"background": True}))
    assert (none[0], none[1]["title"]) == (422, f"the task {caller.task_id} is no subagent")
    assert (await api.stage.muster.record(caller.task_id)).state is State.PENDING


async def test_a_goals_session_goes_on_with_its_gate(api):
    goal = await api.stage.ended_goal()

    prompted = await api.call("POST", f"/v1/tasks/{goal}/prompt", json={"text": "more"})
    resumed = await api.call("POST", f"/v1/tasks/{goal}/resume", json={"prompt": "more"})

    for status, on in (prompted, resumed):
        request = await api.stage.muster.request(on["task_id"])
        assert (status, request.agent, request.input.params["gate"]) == (201, "run", ["run-tests"])


async def test_what_is_said_of_a_session_that_goes_on_reaches_its_goal(api):
    ref = (await api.call("POST", "/v1/blobs", data=b"a bundle"))[1]["ref"]
    work = await api.work(workspace={"bundle": ref, "base": "0" * 40})
    await api.stage.transport.checkpoint(work.lease, ref)
    await work.end()
    said = {"gate": ["pytest"], "gate_rules": {"reruns": 0}, "min_tests": 3, "setup": ["pip install ."], "model": "m"}

    status, on = await api.call("POST", f"/v1/tasks/{work.task_id}/resume", json={"prompt": "go on", **said})
    ruled = await api.call("POST", f"/v1/tasks/{work.task_id}/resume", json={"gate_rules": {"reruns": 0}})

    request = await api.stage.muster.request(on["task_id"])
    params = params_of(GoalParams, request)
    assert (status, request.agent, params.session) == (201, "run", work.task_id)
    assert (params.gate, params.gate_rules.reruns, params.min_tests) == (("pytest",), 0, 3)
    assert (request.workspace.setup, request.model) == (("pip install .",), "m")
    assert (ruled[0], ruled[1]["hint"]) == (422, "name its commands beside them")


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
    kept_here |= {"named_fields", "unheeded"}  # of its file
    made = {"digest"}  # of the file
    assert {field.name for field in fields(Agent)} - kept_here | made == tuned.keys()
    assert (tuned["max_turns"], tuned["temperature"], tuned["top_p"], tuned["color"]) == (7, 0.5, 0.9, "#ff0000")
