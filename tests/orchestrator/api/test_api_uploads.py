"""What callers store is counted for their tenant, by whichever route and at whichever server it comes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import pytest_asyncio

from envelope.agents import AgentCard, WorkerCard
from envelope.events import AskOpened
from orchestrator.api.tokens import Role
from transport.bounds import MAX_INBOX_BYTES
from transport.uploads import MIB

pytestmark = pytest.mark.redis

EXPLORE = AgentCard(name="explore", mode="subagent", pool="explore", auth_scope=("read:**",))
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


async def used_bytes(api) -> int:
    [cell, *_] = api.stage.transport._cells.all  # pyright: ignore[reportPrivateUsage]
    return int((await cell.client.call("INFO", "memory")).decode().split("used_memory:")[1].split()[0])


@pytest.fixture
def counted(api, monkeypatch) -> list[int]:
    """How many bytes were counted, call by call."""
    sizes: list[int] = []
    real = api.stage.transport.uploads.take

    async def take(tenant: str, size_bytes: int, *, looks: bool = False) -> None:
        sizes.append(size_bytes)
        await real(tenant, size_bytes, looks=looks)

    monkeypatch.setattr(api.stage.transport.uploads, "take", take)
    return sizes


async def test_words_to_sessions_that_nobody_runs_yet_are_bounded_and_counted_as_they_are_stored(api, counted):
    tasks = [await api.submit() for _ in range(2)]
    before, at = await used_bytes(api), len(counted)

    async def said(task: str, chars: int) -> int:
        words = {"text": "\x01" * chars}  # six bytes each in the inbox
        return (await api.call("POST", f"/v1/tasks/{task}/prompt", who="submitter", json=words))[0]

    assert await said(tasks[0], 100_000) == 422
    codes = [await said(task, 40_000) for task in tasks for _ in range(8)]

    assert codes == 2 * [*4 * [200], *4 * [503]]
    stored = await used_bytes(api) - before
    assert 8 * 240_000 <= stored < 3 * MAX_INBOX_BYTES
    assert sum(counted[at:]) >= 8 * 240_000


async def test_words_are_refused_where_nothing_is_left_of_the_allowance(small):
    task = await small.submit()
    assert (await store(small, HOUR_BYTES - 100_000))[0] == 201

    told = {
        who: await small.call("POST", f"/v1/tasks/{task}/prompt", who=who, json={"text": "x" * 100_000})
        for who in ("submitter", "admin")
    }

    assert [status for status, _ in told.values()] == [429, 429]
    assert "0.1 MiB are left" in told["admin"][1]["title"]
    # what lets work end is never refused for it
    assert (await small.call("POST", f"/v1/tasks/{task}/cancel", who="submitter", json={}))[0] == 200


async def test_a_fan_out_that_would_fill_the_queue_is_refused(api):
    await api.stage.transport.announce(WorkerCard(worker="e", pool="explore", slots=1, agents=(EXPLORE,)), ttl_s=600)
    fanout = {"agent": "explore", "prompt": "look at {item} " + "x" * 600_000, "items": list(map(str, range(400)))}

    status, told = await api.call("POST", "/v1/fanouts", who="submitter", json=fanout)

    assert (status, "32 MiB" in told["title"], "name files" in told["hint"]) == (422, True, True)
    setup = {"bundle": f"sha256:{'b' * 64}", "base": "c" * 40, "setup": ["true " + "x" * 600_000]}
    light = {**fanout, "prompt": "look at {item}", "workspace": setup}
    status, told = await api.call("POST", "/v1/fanouts", who="submitter", json=light)
    assert (status, "32 MiB" in told["title"]) == (422, True), told


async def test_a_fan_out_counts_for_as_much_as_its_tasks_will_have(api, counted):
    await api.stage.transport.announce(WorkerCard(worker="e", pool="explore", slots=1, agents=(EXPLORE,)), ttl_s=600)
    fanout = {"agent": "explore", "prompt": "look at {item} " + "é" * 100_000, "items": list(map(str, range(40)))}

    status, _ = await api.call("POST", "/v1/fanouts", who="submitter", json=fanout)

    assert status == 201
    assert 40 * 200_000 < sum(counted) < 50 * 200_000


async def test_a_batch_counts_for_as_much_as_its_shards_will_have(api, batch_text, counted):
    given = await api.stage.repository({f"src/f{number}.py": "old\n" for number in range(20)})
    where = f'bundle = "{given.bundle}"\nbase = "{given.base}"\nname = "demo"'
    step = f'agent = "build"\nprompt = "Renew {{path}}. {"x" * 100_000}"'
    text = batch_text.replace('path = "."', where).replace('recipe = ["fix {path}"]', step)
    toml = {"Content-Type": "application/toml"}

    status, _ = await api.call("POST", "/v1/batches", who="submitter", data=text, headers=toml)

    assert status == 201
    assert 20 * 100_000 < sum(counted) < 25 * 100_000


async def test_words_of_an_answer_count_and_a_mere_no_is_never_refused_for_what_was_stored(small):
    ask = AskOpened(ask_id="ask_1", permission="bash", patterns=("git push",), detail="git push")
    await (await small.work()).ask(ask)
    assert (await store(small, HOUR_BYTES - 10_000))[0] == 201

    async def answer(**said: str) -> int:
        return (await small.call("POST", "/v1/asks/ask_1/answer", who="approver", json=said))[0]

    assert await answer(choice="reject", message="x" * 20_000) == 429
    assert await answer(choice="reject") == 200
