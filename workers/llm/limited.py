"""A model whose every try asks the fleet's limiter first (`transport/rates.py`) and tells it of every refusal."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from envelope.events import RetryScheduled
from envelope.ids import new_task_id
from transport.errors import TransportError
from transport.rates import Ask, Later, Permit, Quota, Rates

from ..clock import now_ms
from .base import ChatMessage, ChatModel, Completed, Failed, Failure, ModelEvent, ToolChoice, ToolSpec
from .files import file_tokens
from .pauses import is_congestion, pause_ms

CHARS_PER_TOKEN = 4
# Of a turn with a tool call or two. What a reply really had is put right afterwards.
EXPECTED_OUTPUT_TOKENS = 500
# A shorter wait looks like a slow reply, and nobody asks why.
TOLD_FROM_MS = 1_000
# What a call is counted as that did not fail.
OK, CUT_OFF = "ok", "cut_off"
# Whoever is cancelled must not wait for a store that is down; the ticket is forgotten without us, too.
LEAVE_TIMEOUT_S = 1.0


class Watching(Protocol):
    """What is counted of one model's calls."""

    def waited(self, model: str, seconds: float, per_minute: float) -> None: ...
    def refused(self, model: str) -> None: ...

    def tried(self, model: str, code: str, seconds: float, trace_id: str) -> None:
        """One call of a provider has ended: `ok`, `cut_off`, or a `Failure`."""
        ...


@dataclass(slots=True)
class News:
    """What this process has to tell about one key, with its next question."""

    owed_tokens: int = 0
    served: bool = False


@dataclass(frozen=True, slots=True)
class Limiter:
    """The fleet's limiter as one worker process uses it; shared by all its sessions."""

    rates: Rates
    watching: Watching
    quota: Quota
    news: dict[str, News] = field(default_factory=dict[str, News])

    def news_of(self, key: str) -> News:
        return self.news.setdefault(key, News())


def rate_key(model: str, base_url: str, api_key: str) -> str:
    """Stands for what a provider counts by. From a digest of 128 bits nobody finds the API key again.

    >>> rate_key("openai/x", "", "a") == rate_key("openai/x", "", "b")
    False
    """
    return hashlib.sha256("\0".join((base_url, api_key, model)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Limited:
    """`on_wait` is told when a call has to wait for long; none waits that could not start within `time_left_s()`."""

    model: ChatModel
    limiter: Limiter
    key: str
    trace_id: str
    on_wait: Callable[[RetryScheduled], None]
    time_left_s: Callable[[], float] = lambda: math.inf
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        estimate = tokens_of(messages, tools) if self.limiter.quota.tokens_per_minute else 0
        permit = await self._permit(estimate)
        if permit is None:
            words = "the calls that the provider allows per minute leave no room for this one before the deadline"
            yield Failed(Failure.RATE_LIMIT, words)
            return
        clock = asyncio.get_running_loop().time
        began_s, code = clock(), CUT_OFF
        try:
            async with aclosing(self.model.stream(messages, tools, tool_choice)) as events:
                async for event in events:
                    code = _code_of(event, code)
                    if isinstance(event, Failed):
                        await self._failed(event, permit)
                    else:
                        self.limiter.news_of(self.key).served = True
                    if isinstance(event, Completed) and estimate:
                        self.limiter.news_of(self.key).owed_tokens += (
                            event.usage.input_tokens + event.usage.output_tokens - estimate
                        )
                    yield event
        finally:
            self.limiter.watching.tried(self.name, code, clock() - began_s, self.trace_id)

    async def _permit(self, tokens: int) -> Permit | None:
        """When the fleet may call; None: that is after the deadline. Who is cancelled leaves the line."""
        clock = asyncio.get_running_loop().time
        began_s, was_told = clock(), False
        ask = Ask(self.key, self.trace_id, new_task_id(), tokens, self.limiter.quota)
        try:
            while not isinstance(found := await self._ask(ask), Permit):
                if found.turn_ms / 1000 >= self.time_left_s():
                    await self._leave(ask.ticket)
                    return None
                if found.turn_ms > TOLD_FROM_MS and not was_told:
                    was_told = True
                    words = "calls to this model wait for their turn under its rate limit"
                    self.on_wait(RetryScheduled(attempt=0, wait_ms=found.turn_ms, reason=words))
                ask = replace(ask, place=found.place)
                await self.pause(found.wait_ms / 1000)
        except asyncio.CancelledError:
            await self._leave(ask.ticket)
            raise
        self.limiter.watching.waited(self.name, clock() - began_s, found.per_minute)
        return found

    async def _ask(self, ask: Ask) -> Permit | Later:
        news = self.limiter.news.pop(self.key, News())
        return await self.limiter.rates.ask(replace(ask, owed_tokens=news.owed_tokens, served=news.served))

    async def _leave(self, ticket: str) -> None:
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self.limiter.rates.leave(self.key, ticket)

    async def _failed(self, failure: Failed, permit: Permit) -> None:
        if is_congestion(failure):
            self.limiter.watching.refused(self.name)
            wait_ms = pause_ms(failure.headers, now_ms=now_ms())
            await self.limiter.rates.slow_down(self.key, permit, self.limiter.quota, pause_ms=wait_ms)


def _code_of(event: ModelEvent, before: str) -> str:
    if isinstance(event, Failed):
        return event.failure
    return OK if isinstance(event, Completed) else before


def tokens_of(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> int:
    """What a call will count for, roughly.

    >>> tokens_of([ChatMessage(role="user", content="four char")], [])
    502
    """
    chars = sum(len(message.content) + len(message.reasoning) for message in messages)
    chars += sum(len(call.arguments) for message in messages for call in message.tool_calls)
    chars += sum(len(tool.description) for tool in tools)
    files = sum(file_tokens(file) for message in messages for file in message.files)
    return chars // CHARS_PER_TOKEN + files + EXPECTED_OUTPUT_TOKENS
