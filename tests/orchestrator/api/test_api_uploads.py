"""What callers store is counted for their tenant, by whichever route and at whichever server it comes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import pytest_asyncio

from orchestrator.api.tokens import Role
from transport.uploads import MIB

pytestmark = pytest.mark.redis

HOUR_BYTES = 8 * MIB


@pytest_asyncio.fixture
async def small(api):
    """A server whose tenants may store 8 MiB an hour; of that 1 MiB with a token that only looks."""
    cells = api.stage.transport._cells  # pyright: ignore[reportPrivateUsage]
    cells.limits = replace(cells.limits, upload_hour_bytes=HOUR_BYTES)
    api.secrets["looks"] = await api.tokens.create("looks", Role.SUBMITTER, "default", read_only=True)
    return api


async def store(api, size_bytes: int, who: str = "submitter"):
    async with api.session.post(f"{api.url}/v1/blobs", data=b"x" * size_bytes, headers=api.auth(who)) as response:
        return response.status, await response.json(), response.headers


async def test_a_token_that_only_looks_fills_nothing(small):
    stored = 0
    while (answer := await store(small, MIB // 4, "looks"))[0] == 201:
        stored += MIB // 4

    status, problem, headers = answer
    assert (status, stored) == (429, MIB)
    assert problem["title"].endswith("0 MiB are left, and this has 0.3 MiB")
    assert "come again in" in problem["hint"]
    assert 0 < int(headers["Retry-After"]) <= 3600
    assert (await store(small, MIB))[0] == 201  # the tenant's own


async def test_a_tenant_s_hour_is_one_over_all_tokens_and_no_other_tenant_s(small):
    assert (await store(small, HOUR_BYTES - MIB))[0] == 201
    assert (await store(small, 2 * MIB, "admin"))[0] == 429
    assert (await store(small, HOUR_BYTES, "stranger"))[0] == 201
    assert (await store(small, HOUR_BYTES + 1))[0] == 422  # no hour is long enough


async def test_tasks_count_as_well(small):
    task = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000, "params": {"x": "y" * (900 * 1024)}}
    codes = [(await small.call("POST", "/v1/tasks", who="submitter", json=task))[0] for _ in range(10)]
    assert codes == [201] * 9 + [429]


async def test_a_viewer_stores_nothing(small):
    assert (await store(small, 1, "viewer"))[0] == 403
