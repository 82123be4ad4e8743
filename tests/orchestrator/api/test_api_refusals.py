"""What the API does not take: tasks that cannot be, bodies without an end, too many calls."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.api.bodies import MAX_BLOB_BYTES, MAX_JSON_BYTES
from orchestrator.api.rates import Rates

pytestmark = pytest.mark.redis

NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}


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
