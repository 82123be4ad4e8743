"""Servers and helpers are killed at each of their writes, and their successors go on: once, and under the same ids."""

from __future__ import annotations

import asyncio
import base64
import json

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from lab.mortals import KILLED

from envelope.lifecycle import State
from envelope.messages import TaskResult
from orchestrator.api.tokens import Role, Tokens
from orchestrator.submit import DRIVERS, task_request

pytestmark = [pytest.mark.redis, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module")]

FIELDS = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 600_000}
SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four b").decode()
NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}


@pytest.mark.parametrize("path, body", [("/v1/tasks", NEW), ("/v1/goals", {"goal": "do it"})])
async def test_a_request_with_a_key_is_one_task_however_often_its_server_is_killed(stages, path, body):
    headers = {"Idempotency-Key": "nightly-1"}

    async def prepare(scene):
        secret = await Tokens(scene.transport.registry).create("ci", Role.SUBMITTER, "default")
        headers["Authorization"] = f"Bearer {secret}"

    async def live(scene, fate) -> bool:
        """Whether the one request got its answer."""
        await stages.mortals.begin("api", scene.env, fate)
        address = f"http://127.0.0.1:{await stages.mortals.hear('port')}{path}"
        try:
            async with aiohttp.ClientSession() as session, session.post(address, json=body, headers=headers) as answer:
                assert answer.status in (200, 201), await answer.text()
                scene.kept["told"] = (await answer.json())["task_id"]
        except aiohttp.ClientError:
            assert await stages.mortals.end() == KILLED, stages.mortals.log.read_text()
            return False
        stages.mortals.kill()
        await stages.mortals.end()
        return True

    async def look(scene):
        [task] = await scene.muster.tasks()
        assert task.task_id == scene.kept["told"]
        return task.agent, task.state, (await scene.muster.request(task.task_id)).idempotency_key

    assert await stages.deaths_of(prepare, live, look) >= 1


@pytest_asyncio.fixture(loop_scope="module")
async def receiver():
    """Says yes to all; `got` has the ids that came, by the task that each told of."""
    got: dict[str, set[str]] = {}

    async def take(request: web.Request) -> web.Response:
        said = json.loads(await request.read())
        got.setdefault(said["data"]["task_id"], set()).add(request.headers["webhook-id"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/", got
    await runner.cleanup()


async def test_what_happened_is_told_under_one_id_however_often_its_teller_is_killed(stages, receiver):
    url, got = receiver
    hooks = {"chat": {"url": url, "secret_env": "HOOK_SECRET", "allow_private": True}}

    async def prepare(scene):
        got.clear()
        # a try that was begun is somebody else's half as long again after this
        scene.env |= {
            "MUSTER_WEBHOOKS": json.dumps(hooks),
            "MUSTER_WEBHOOK_TIMEOUT_S": "0.3",
            "HOOK_SECRET": SECRET,
        }
        [notices] = scene.transport.notices
        await notices.read(wait_s=0.001)  # an orchestrator was there before
        request = task_request(**FIELDS)
        await scene.transport.submit([request])
        [claim] = await scene.transport.claim("build", "w", slots=1, wait_s=5)
        said = {"trace_id": request.trace_id, "task_id": request.task_id, "attempt": 1}
        await scene.transport.finish(claim.lease, TaskResult(**said, status=State.COMPLETED))
        scene.kept["task"] = request.task_id

    async def live(scene, fate) -> bool:
        """Until it was told and is known to have been."""
        await stages.mortals.begin("webhooks", scene.env, fate)
        ended = asyncio.ensure_future(stages.mortals.end())
        [notices] = scene.transport.notices
        while not ended.done() and (not got or await notices.waiting(1)):
            await scene.transport.now_ms()
        lived = not ended.done()
        stages.mortals.kill()
        await ended
        return lived

    async def look(scene):
        [notices] = scene.transport.notices
        assert await notices.given_up(1) == []
        return {task == scene.kept["task"]: len(ids) for task, ids in got.items()}

    assert await stages.deaths_of(prepare, live, look, acts_outside=True, cells=1) >= 6


async def test_what_a_sweep_was_about_is_swept_however_often_it_is_killed(stages):
    """Shards whose batch ended while no orchestrator held it, in several cells."""

    async def prepare(scene):
        batch = task_request(**{**FIELDS, "agent": "batch", "pool": DRIVERS})
        shards = [task_request(**FIELDS, batch_id=batch.task_id) for _ in range(3)]
        alive = task_request(**FIELDS)
        await scene.transport.submit([batch, *shards, alive])
        await scene.muster.cancel(batch.task_id, by="ann")
        return {"name": "sweep"}

    async def look(scene):
        tasks = await scene.muster.tasks()
        decisions = [what for what, _ in await scene.decisions()]
        return (
            sorted(task.state for task in tasks),
            decisions,
            [(each.pool, each.ready) for each in await scene.muster.pools()],
        )

    assert await stages.deaths("job", prepare, look) >= 5
