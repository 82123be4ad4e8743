"""Bodies that are refused cost little, and hold up nobody but who sends them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from orchestrator.api.access import CallerWith
from orchestrator.api.problems import Problem
from orchestrator.api.reading import BODIES_AT_ONCE, MAX_VALUES, MAX_VALUES_OF_MANY, BodyRoute, require_few_values
from orchestrator.fanout.items import check_prompt, items_of_values

TASK = {"agent": "build", "prompt": "x", "deadline_ms": 60_000}
STEP = {"step_id": "a", "title": "a", "goal": "a", "agent": "build"}
FANOUT = {"agent": "build", "prompt": "look at {item}", "items": ["a"]}
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
JSON = {"Content-Type": "application/json"}
WRONG = {
    "references": ("tasks", {**TASK, "context_refs": [0] * 500_000}),
    "references, fewer": ("tasks", {**TASK, "context_refs": [0] * 15_000}),
    "grants": ("tasks", {**TASK, "auth_scope": [0] * 500_000}),
    "parameters": ("tasks", {**TASK, "params": {"x": [[]] * 250_000}}),
    "fields": ("tasks", {**TASK, **{f"a{number}": 0 for number in range(15_000)}}),
    "steps": ("goals", {"goal": "x", "given_plan": {"goal": "x", "steps": [{}] * 15_000}}),
    "needs of steps": (
        "goals",
        {"goal": "x", "given_plan": {"goal": "x", "steps": [{**STEP, "depends_on": [0] * 5000}]}},
    ),
    "items": ("fanouts", {**FANOUT, "items": [0] * 10_000}),
    "fields of a budget": ("fanouts", {**FANOUT, "budget": {f"a{number}": 0 for number in range(90_000)}}),
    "a batch": ("batches", {"repositories": [0] * 60_000}),
}


@pytest.mark.redis
async def test_refused_bodies_hold_up_nobody_else(api):
    body = json.dumps({**TASK, "context_refs": []})[:-2].encode() + b"0," * 500_000 + b"0]}"
    assert len(body) <= 1024 * 1024
    headers = {**api.auth("stranger"), **JSON}

    async def refused() -> int:
        async with api.session.post(f"{api.url}/v1/tasks", data=body, headers=headers) as response:
            return response.status

    began_s = time.process_time()
    calls = [asyncio.create_task(refused()) for _ in range(40)]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    status, _ = await api.call("GET", "/v1/tasks?limit=1", who="viewer")
    statuses = set(await asyncio.gather(*calls))

    assert (status, statuses) == (200, {422})
    assert time.process_time() - began_s < 10  # of processors, both sides; before: 100 s


@pytest.mark.redis
async def test_what_is_wrong_many_times_is_refused_at_the_first(api, monkeypatch):
    monkeypatch.setattr("orchestrator.api.bodies.MAX_JSON_BYTES", 4 * 1024 * 1024)
    for name, (door, body) in WRONG.items():
        text = json.dumps(body, separators=(",", ":"))
        began_s = time.process_time()
        status, problem = await api.call("POST", f"/v1/{door}", data=text, headers=JSON)
        assert (status, len(problem["title"]) < 500) == (422, True), (name, problem)
        assert time.process_time() - began_s < 0.6, name


@pytest.mark.redis
async def test_a_call_of_mcp_and_an_answer_by_a_link_are_counted_too(api):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": [0] * 30_000}}
    status, problem = await api.call("POST", "/mcp", json=call)
    assert (status, "20,000 values" in problem["title"]) == (422, True), problem

    for says, expected in (([""] * 300, 422), (["x" * 70_000], 413)):
        status, problem = await api.call("POST", "/v1/answers/none", who="", json={"says": says})
        assert (status, bool(problem["title"])) == (expected, True), problem


def test_places_of_a_prompt_that_no_item_fills_cost_nothing():
    prompt = "{item}" + "".join(f"{{a{number}}}" for number in range(1_000))
    items = items_of_values(map(str, range(9_000)), name="the items")

    began_s = time.process_time()
    check_prompt(prompt, items)

    assert time.process_time() - began_s < 0.5  # before: 1 s and more


@pytest.mark.redis
async def test_names_that_nobody_writes_are_not_compared(api):
    name = "".join(f"{LETTERS[number % 40]}{number % 7}" for number in range(150_000))
    body = {**FANOUT, "prompt": f"look at {{x{name}}}", "items": [{f"y{name}": 1}]}

    began_s = time.process_time()
    status, problem = await api.call("POST", "/v1/fanouts", json=body)

    assert (status, len(problem["hint"]) < 500) == (422, True)
    assert time.process_time() - began_s < 1


@pytest.mark.redis
async def test_ten_thousand_items_with_fields_are_a_fan_out(api):
    items = [
        {"path": f"src/f{number}.py", "kind": "python", "lines": number, "tags": ["a", "b"]} for number in range(10_000)
    ]

    status, told = await api.call("POST", "/v1/fanouts", json={**FANOUT, "prompt": "look at {path}", "items": items})

    assert status == 201, told


@pytest.mark.redis
async def test_a_caller_is_known_before_a_byte_of_the_body_is_read(api):
    host, port = api.url.removeprefix("http://").split(":")
    told: list[int] = []
    for headers in ({}, api.auth("viewer"), {"Authorization": "Bearer muster_none"}):
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [f"{name}: {value}" for name, value in {**headers, **JSON, "Content-Length": 1000}.items()]
        writer.write("\r\n".join(["POST /v1/tasks HTTP/1.1", "Host: x", *lines, "", ""]).encode())
        told.append(int((await asyncio.wait_for(reader.readline(), 20)).split()[1]))
        writer.close()

    assert told == [401, 403, 401]


@pytest.mark.redis
async def test_who_sends_slowly_keeps_no_place_of_others(api):
    host, port = api.url.removeprefix("http://").split(":")
    auth = api.auth("stranger")["Authorization"]
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: {auth}\r\nContent-Type: application/json\r\n"
    held: list[asyncio.StreamWriter] = []
    for _ in range(BODIES_AT_ONCE + 8):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        held.append(writer)
    places = api.app.state.reading.places["stranger"]
    async with asyncio.timeout(30):
        while not places.locked():
            await asyncio.sleep(0.01)

    waiting = asyncio.create_task(api.call("POST", "/v1/tasks", who="stranger", json=TASK))
    assert (await api.call("POST", "/v1/tasks", who="submitter", json=TASK))[0] == 201
    assert not waiting.done()
    for writer in held:
        writer.close()
    assert (await waiting)[0] == 201


@pytest.mark.redis
async def test_every_body_is_read_so(api):
    found: list[Any] = [
        each for each in iter_route_contexts(api.app.routes) if isinstance(each.original_route, APIRoute)
    ]
    with_body = [each for each in found if each.body_field is not None]
    assert len(with_body) > 10
    for each in with_body:
        assert isinstance(each.original_route, BodyRoute), each.path
        has_door = any(isinstance(one.call, CallerWith) for one in each.dependant.dependencies)
        assert has_door or each.path.startswith("/v1/answers/"), each.path


@pytest.mark.redis
async def test_the_body_is_utf_8_wherever_its_signs_would_be_else(api):
    text = json.dumps({**TASK, "prompt": "\u2222"}, ensure_ascii=False)
    status, problem = await api.call("POST", "/v1/tasks", data=text.encode("utf-16"), headers=JSON)

    assert (status, "UTF-8" in problem["title"]) == (400, True)


@pytest.mark.parametrize(
    "content",
    [b"[" * 30, b"[" + b"0," * 25 + b"0]", b'["\\"",' + b'"a",' * 25 + b"0]", b'"\\\\",' + b"{}," * 13 + b'"[[["'],
)
def test_values_are_counted_outside_of_texts(content: bytes):
    with pytest.raises(Problem, match="more than 10 values"):
        require_few_values(content, 10)


@pytest.mark.parametrize(
    "text", ['"' + ",[{" * 100 + '"', '"\\"' + ",[{" * 100 + '"', '"' + ",[{" * 100, '"' + '\\",' * 100]
)
def test_what_stands_in_a_text_is_no_value(text: str):
    assert require_few_values(text.encode(), 10) is None


def test_counting_takes_time_by_the_length_alone():
    began_s = time.process_time()
    for content in (b'"\\' * 500_000, b'\\"' * 500_000, b'"' + b'\\"' * 500_000, b'"a",' * 250_000, b'""' * 500_000):
        for limit in (MAX_VALUES, MAX_VALUES_OF_MANY):
            try:
                require_few_values(content + b",[{" * 100_000, limit)
            except Problem:
                continue
    assert time.process_time() - began_s < 4
