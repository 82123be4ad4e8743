"""A process of agents that call a model without a pause, for `benchmarks/limiter.py`.

python -m benchmarks.limiter_worker URL AGENTS REDIS_URL ("-": no limiter)
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp

from envelope.budget import Usage
from envelope.ids import new_trace_id
from transport.keyring import fresh
from transport.rates import Quota
from transport.redis import connect_redis
from workers.llm.base import ChatMessage, ChatModel, Completed, Failed, Failure, ModelEvent, ToolSpec
from workers.llm.limited import Limited, Limiter, rate_key
from workers.llm.retry import Retrying


@dataclass(frozen=True)
class HttpModel:
    """The least of an engine: a request, and whether it was served."""

    session: aiohttp.ClientSession
    url: str
    name: str = "bench/model"

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[ModelEvent, None]:
        async with self.session.post(self.url, data=b"x") as response:
            if response.status == 200:
                yield Completed("ok", "", (), "stop", Usage())
            else:
                yield Failed(Failure.RATE_LIMIT, "too many requests", dict(response.headers))


class Unwatched:
    def waited(self, model: str, seconds: float, per_minute: float) -> None: ...
    def refused(self, model: str) -> None: ...
    def tried(self, model: str, code: str, seconds: float, trace_id: str) -> None: ...


async def work(url: str, agents: int, redis_url: str) -> None:
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        model: ChatModel = HttpModel(session, url)
        if redis_url != "-":
            transport = await connect_redis(redis_url, keyring=fresh(), fleet="bench")
            stack.push_async_callback(transport.close)
            limiter = Limiter(transport.rates, Unwatched(), Quota())
            model = Limited(model, limiter, rate_key(model.name, url, ""), new_trace_id(), lambda event: None)
        print('{"ready": 1}', flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(call_for_ever(Retrying(model, lambda event: None)) for _ in range(agents)))


async def call_for_ever(model: ChatModel) -> None:
    while True:
        async for _ in model.stream([], []):
            pass


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
