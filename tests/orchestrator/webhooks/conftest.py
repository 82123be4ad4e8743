"""A receiver of webhooks on loopback, which answers as a test says."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four b").decode()


@dataclass
class Got:
    """One request, as it came."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        mac = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return f"v1,{mac}" in self.headers["webhook-signature"].split()


@dataclass
class Receiver:
    """`answers`: the status of each request to come, the last one for all others."""

    url: str = ""
    answers: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hold: asyncio.Event | None = None  # requests get no answer until it is set
    got: list[Got] = field(default_factory=list[Got])
    came: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, request: web.Request) -> web.Response:
        got = Got({name.lower(): value for name, value in request.headers.items()}, await request.read())
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        async with self.came:
            self.got.append(got)
            self.came.notify_all()
        if self.hold:
            await self.hold.wait()
        return web.Response(status=status, headers=self.headers)

    async def until(self, enough: Callable[[list[Got]], bool]) -> list[Got]:
        async with asyncio.timeout(60), self.came:
            await self.came.wait_for(lambda: enough(self.got))
            return list(self.got)

    async def first(self, count: int) -> list[Got]:
        return await self.until(lambda got: len(got) >= count)

    def hook(self, **fields: Any) -> dict[str, Any]:
        return {"url": self.url, "secret_env": "HOOK_SECRET", "allow_private": True, **fields}


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return SECRET


@pytest_asyncio.fixture
async def receiver(secret: str) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    receiver.url = f"http://127.0.0.1:{port}/hooks"
    yield receiver
    if receiver.hold:
        receiver.hold.set()  # else the server would wait for it
    await runner.cleanup()
