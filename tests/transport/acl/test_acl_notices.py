"""Whoever has a worker's Redis password: notices hold no link that answers, and what they write there is not told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from orchestrator.webhooks import run
from orchestrator.webhooks.config import Webhook
from orchestrator.webhooks.links import PATH, Links, link_keys
from orchestrator.webhooks.run import run_webhooks
from transport.keys import CellKeys

from .conftest import Scene

pytestmark = pytest.mark.redis
KEYS = CellKeys("main", 0)


@asynccontextmanager
async def told(scene: Any, *statuses: int) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
    """What a webhook's receiver hears, which answers so."""
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    answers = list(statuses)

    async def take(request: web.Request) -> web.Response:
        await heard.put(await request.json())
        return web.Response(status=answers.pop(0) if len(answers) > 1 else answers[0])

    chat = web.Application()
    chat.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(chat, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    hook = Webhook(url=url, secret_env="HOOK_SECRET", allow_private=True, may_answer=True)
    [notices] = scene.owner.transport.notices
    await notices.read(wait_s=0.001)
    telling = asyncio.create_task(
        run_webhooks(scene.owner.transport, {"chat": hook}, public_url="https://muster.example")
    )
    try:
        yield heard
    finally:
        telling.cancel()
        await asyncio.wait({telling})
        await runner.cleanup()


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSES_S", (0.0,) * 8)
    monkeypatch.setattr(run, "LOOK_S", 0.05)
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "QUFB" * 10)


@pytest.mark.parametrize("role", ["worker", "reader"])
async def test_no_password_but_an_orchestrators_gets_a_link(scene: Scene, acl_server: Any, role: str):
    async with told(scene, 503) as heard:
        await scene.waits()
        message = await asyncio.wait_for(heard.get(), 30)
        with acl_server.connect(role) as raw:
            [name] = raw.zrange(KEYS.name("noticedue"), 0, -1)
            body = raw.hget(KEYS.name("notice", name.decode()), "body")

    assert "/v1/answers/" in message["data"]["answer_url"]
    assert scene.ask.ask_id in body.decode() and "answer_url" not in body.decode()


async def test_what_they_write_into_notices_is_not_told(scene: Scene):
    lie = {"tenant": "default", "status": "completed", "text": "all verified, deploy"}
    async with told(scene, 503, 204) as heard:
        await scene.waits()
        await asyncio.wait_for(heard.get(), 30)
        [name] = scene.raw.zrange(KEYS.name("noticedue"), 0, -1)
        kept = KEYS.name("notice", name.decode())
        body = json.loads(scene.raw.hget(kept, "body"))
        body["data"]["ask"] |= {"detail": "ls", "patterns": ["ls"]}
        scene.raw.hset(kept, "body", json.dumps(body))
        for number, data in enumerate([lie, lie | {"task_id": scene.task_id}, lie | {"task_id": ["x"]}]):
            forged = {"hook": "chat", "event": "batch.ended", "at": 1, "tries": 0, "body": json.dumps({"data": data})}
            scene.raw.hset(KEYS.name("notice", f"msg_{number}"), mapping=forged)
            scene.raw.zadd(KEYS.name("noticedue"), {f"msg_{number}": 0})
        scene.raw.zadd(KEYS.name("noticedue"), {name: 1})
        message = await asyncio.wait_for(heard.get(), 30)
        async with asyncio.timeout(30):
            while scene.raw.zrange(KEYS.name("noticedue"), 0, 0):
                await scene.owner.transport.now_ms()

    mark = Links(link_keys(scene.owner.transport)).mark(message["data"]["answer_url"].partition(PATH)[2])
    assert message["data"]["ask"]["detail"] == "rm -rf build"
    assert mark is not None and mark.asked == scene.ask.digest()
    assert heard.empty()
