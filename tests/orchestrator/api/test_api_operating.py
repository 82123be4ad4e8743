"""Operating the fleet over HTTP: dead letters, shares of tenants, sessions that are taken back."""

from __future__ import annotations

import pytest

from envelope.agent_params import AgentParams
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo
from orchestrator.api.tokens import ALL_TENANTS, Role

pytestmark = pytest.mark.redis


async def dead(api) -> str:
    work = await api.work()
    error = ErrorInfo.of(ErrorCode.POISON, "it took three workers down")
    await work.end(State.ERROR, errors=(error,), dead=error.message)
    return work.task_id


async def test_dead_letters_are_seen_done_again_and_dropped_by_their_own_tenant(api):
    first, second = await dead(api), await dead(api)
    listed = await api.call("GET", "/v1/dead-letters")
    strangers = await api.call("GET", "/v1/dead-letters", who="stranger")
    hidden = await api.call("POST", f"/v1/dead-letters/{first}/requeue", who="stranger")
    again = await api.call("POST", f"/v1/dead-letters/{first}/requeue")
    twice = await api.call("POST", f"/v1/dead-letters/{first}/requeue")
    dropped = await api.call("DELETE", f"/v1/dead-letters/{second}")

    assert [letter["task_id"] for letter in listed[1]] == [second, first]
    assert (strangers, hidden[0]) == ((200, []), 404)
    assert (again[0], twice[0], twice[1]["task_id"]) == (201, 200, again[1]["task_id"])
    assert dropped == (200, {"stopped": 1})
    assert (await api.call("GET", "/v1/dead-letters"))[1] == []
    assert (await api.stage.muster.request(again[1]["task_id"])).retry_of == first


async def test_a_tenants_share_is_given_by_who_sees_all(api):
    api.secrets["fleet"] = await api.tokens.create("fleet", Role.ADMIN, ALL_TENANTS)
    path, share = (
        "/v1/tenants/default/allotment",
        {"weight": 2.0, "max_running": 3, "max_queued": 500, "max_tree": None},
    )

    usual = await api.call("GET", path, who="viewer")
    own = await api.call("PUT", path, json=share)
    given = await api.call("PUT", path, who="fleet", json=share)
    none = await api.call("PUT", path, who="fleet", json={"weight": 10**9})

    assert usual == (200, {"weight": 1.0, "max_running": None, "max_queued": None, "max_tree": None})
    assert (own[0], given, none[0]) == (403, (200, share), 422)
    assert (await api.call("GET", path, who="viewer"))[1] == share


async def test_a_session_is_taken_back_to_a_turn_in_a_task_of_its_own(api):
    task_id = await dead(api)
    status, told = await api.call("POST", f"/v1/sessions/{task_id}/revert", who="submitter", json={"turn": 2})
    hidden = await api.call("POST", f"/v1/sessions/{task_id}/revert", who="stranger", json={"turn": 2})

    # what never got to a session has none to go back in
    assert (status, hidden[0]) == (422, 404), told


async def test_going_back_names_the_turn_and_the_session(api):
    work = await api.work()
    await api.stage.transport.checkpoint(work.lease, await api.stage.transport.blobs.put(b"a session"))
    await work.end()

    handle = await api.stage.muster.revert(work.task_id, 2)

    request = await api.stage.muster.request(handle.task_id)
    assert (request.resume_token, AgentParams.model_validate(request.input.params).revert_to) == (work.task_id, 2)
