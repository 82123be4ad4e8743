"""Calls to models under the limiter in memory: waits, news, refusals. Time is passed in."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import pytest

from envelope.budget import Usage
from transport.memory.rates import MemoryRates
from transport.rates import Quota
from workers.llm.base import ChatMessage, Completed, Failed, Failure, Text
from workers.llm.failures import ProviderError, failed
from workers.llm.limited import Limited, Limiter, rate_key, tokens_of
from workers.llm.pauses import is_congestion, pause_ms

ONE = Quota(requests_per_minute=61)  # a call a second, after the two of the first
DONE = Completed("ok", "", (), "stop", Usage(input_tokens=900, output_tokens=100))
BUSY = Failed(Failure.RATE_LIMIT, "slow down", {"retry-after": "7"})
SAID = [ChatMessage(role="user", content="x" * 400)]


class Model:
    name = "test/model"

    def __init__(self, *ends) -> None:
        self.ends = list(ends)
        self.calls = 0

    async def stream(self, messages, tools, tool_choice="auto"):
        self.calls += 1
        end = self.ends.pop(0) if self.ends else DONE
        if end is DONE:
            yield Text("ok")
        yield end


@dataclass
class World:
    """A worker's limiter under a clock that its waits move."""

    quota: Quota = ONE
    now_ms: int = 1_700_000_000_000
    time_left_s: float = math.inf
    waits_s: list[float] = field(default_factory=list)
    told: list = field(default_factory=list)
    counted: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limiter = Limiter(MemoryRates(lambda: self.now_ms), self, self.quota)

    async def pause(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_ms += round(seconds * 1000)

    def waited(self, model: str, seconds: float, per_minute: float) -> None:
        self.counted.append((model, round(per_minute)))

    def tried(self, model: str, code: str, seconds: float, trace_id: str) -> None: ...

    def refused(self, model: str) -> None:
        self.counted.append((model, "refused"))

    def limited(self, model: Model, pause=None) -> Limited:
        pause = pause or self.pause
        return Limited(model, self.limiter, "0" * 32, "a" * 32, self.told.append, lambda: self.time_left_s, pause)

    async def call(self, model: Model) -> list:
        return [event async for event in self.limited(model).stream(SAID, [])]


async def test_calls_within_the_rate_do_not_wait():
    world, model = World(), Model()
    assert [await world.call(model) for _ in range(2)] == [[Text("ok"), DONE]] * 2
    assert (world.waits_s, world.told, world.counted) == ([], [], [("test/model", 61)] * 2)


async def test_a_call_beyond_the_rate_waits_and_a_short_wait_is_not_told():
    world, model = World(), Model()
    for _ in range(3):
        await world.call(model)
    assert (world.waits_s, world.told, model.calls) == ([1.0], [], 3)


async def test_a_long_wait_is_told_once():
    world = World(Quota(requests_per_minute=6))
    for _ in range(2):
        await world.call(Model())
    assert sum(world.waits_s) == pytest.approx(9.167)
    assert [(event.kind, event.attempt, event.wait_ms) for event in world.told] == [("retry", 0, 9167)]


async def test_a_wait_beyond_the_deadline_is_a_failure_at_once_and_leaves_the_line():
    world, model = World(), Model()
    for _ in range(2):
        await world.call(model)
    world.time_left_s = 0.5

    (failure,) = await world.call(model)

    assert (failure.failure, model.calls, world.waits_s) == (Failure.RATE_LIMIT, 2, [])
    world.time_left_s = math.inf
    await world.call(model)
    assert world.waits_s == [1.0]  # and not two


async def test_who_is_cancelled_gives_the_place_back():
    world, model = World(), Model()
    for _ in range(2):
        await world.call(model)
    waits = asyncio.Event()

    async def for_ever(seconds: float) -> None:
        waits.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(anext(world.limited(model, for_ever).stream(SAID, [])))
    await waits.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await world.call(model)
    assert world.waits_s == [1.0]


async def test_after_a_429_nobody_calls_before_retry_after_is_over():
    world = World()
    assert await world.call(Model(BUSY)) == [BUSY]
    await world.call(Model())
    assert sum(world.waits_s) == pytest.approx(7.0)
    assert world.counted == [("test/model", 61), ("test/model", "refused"), ("test/model", 57)]


async def test_what_a_call_really_used_is_told_with_the_next():
    world = World(Quota(tokens_per_minute=61_000))
    assert tokens_of(SAID, []) == 600
    await world.call(Model())  # 1,000 instead of the 600
    await world.call(Model())  # 600 more: 0.6 s over the burst
    assert world.waits_s == []
    await world.call(Model())
    assert world.waits_s == [1.0]


def test_the_key_tells_endpoints_keys_and_models_apart_and_hides_them():
    keys = {rate_key(*what) for what in (("m", "u", "k"), ("n", "u", "k"), ("m", "v", "k"), ("m", "u", "l"))}
    assert len(keys) == 4
    assert all(len(key) == 32 and int(key, 16) for key in keys)


USED_UP = {"anthropic-ratelimit-tokens-remaining": "0"}
RESET = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}


@pytest.mark.parametrize(
    ("headers", "expected_ms"),
    [
        ({}, 1_000),
        ({"Retry-After": "3"}, 3_000),
        ({"retry-after-ms": "250"}, 250),
        (RESET, 360_000),
        (RESET | {"Retry-After": "3"}, 3_000),
        (RESET | {"x-ratelimit-remaining-requests": "5"}, 1_000),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 20),
        ({**USED_UP, "anthropic-ratelimit-tokens-reset": "1970-01-01T00:00:09Z"}, 8_000),
        ({**USED_UP, "anthropic-ratelimit-tokens-reset": "soon"}, 1_000),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "9" * 40 + "s"}, 1_000),
    ],
)  # fmt: skip
def test_how_long_a_provider_wants_nothing(headers: dict[str, str], expected_ms: int):
    assert pause_ms(headers, now_ms=1_000) == expected_ms


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ProviderError("slow down", status=429), True),
        (ProviderError("Overloaded", status=529, kind="overloaded_error"), True),
        (ProviderError("internal error", status=500), False),
        (ProviderError("bad key", status=401), False),
    ],
)
def test_what_counts_as_congestion(error: ProviderError, expected: bool):
    assert is_congestion(failed(error)) is expected


def test_a_failure_keeps_the_headers_that_say_when_to_come_again():
    kept = failed(ProviderError("slow down", status=429, headers={**RESET, "Set-Cookie": "a=b"})).headers
    assert kept == RESET
