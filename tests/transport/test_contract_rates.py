"""What the limiter of calls to models promises, in memory and on Redis, under one clock that the test moves."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from envelope.ids import new_task_id
from transport.embedded import Server
from transport.limits import Limits
from transport.memory.rates import MemoryRates
from transport.rates import MAX_PAUSE_MS, PACE, Ask, Later, Permit, Quota, Rates
from transport.redis.cells import Cells
from transport.redis.rates import RedisRates
from transport.redis.servers import Servers

KEY = "0123456789abcdef" * 2
ANN, BEN, OTHER = "a" * 32, "b" * 32, "c" * 32
SIXTY = Quota(requests_per_minute=61)  # a call moves the meter by exactly one second
_fleets = itertools.count()


@dataclass
class Clock:
    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class ClockedCells(Cells):
    """One cell whose scripts go by the test's clock."""

    def __init__(self, servers: Servers, fleet: str, clock: Clock) -> None:
        super().__init__(servers, fleet, Limits())
        self.all = tuple(replace(cell, clock=clock) for cell in self.all)


class Call:
    """One call on its way: asks with its ticket, and from the place that it was given."""

    def __init__(self, limiter: Limiter, trace: str = ANN, **fields: Any) -> None:
        self._limiter = limiter
        told = {"key": KEY, "quota": limiter.quota, "ticket": new_task_id(now_ms=limiter.clock.now_ms), "tokens": 0}
        self.ask = Ask(trace_id=trace, **{**told, **fields})

    async def comes(self) -> Permit | Later:
        found = await self._limiter.rates.ask(self.ask)
        if isinstance(found, Later):
            self.ask = replace(self.ask, place=found.place, owed_tokens=0)
        return found

    async def comes_early(self) -> tuple[int, int]:
        """After how many ms it should come again, and go."""
        found = await self.comes()
        assert isinstance(found, Later)
        return found.wait_ms, found.turn_ms

    async def goes(self) -> Permit:
        found = await self.comes()
        assert isinstance(found, Permit)
        return found


@dataclass
class Limiter:
    rates: Rates
    clock: Clock
    quota: Quota = SIXTY

    def call(self, trace: str = ANN, **fields: Any) -> Call:
        return Call(self, trace, **fields)

    async def waiting(self, trace: str = ANN) -> Call:
        """One more call that has to wait."""
        call = self.call(trace)
        await call.comes_early()
        return call

    async def used_up(self) -> None:
        """Nothing goes any more without waiting."""
        call = self.call(OTHER)
        while isinstance(await call.comes(), Permit):
            call = self.call(OTHER)
        await self.rates.leave(KEY, call.ask.ticket)

    def pass_ms(self, ms: int) -> None:
        self.clock.now_ms += ms


@pytest_asyncio.fixture
async def redis_rates(redis_server: Server) -> AsyncIterator[tuple[RedisRates, Clock]]:
    servers, clock = Servers(redis_server.url), Clock()
    yield RedisRates(ClockedCells(servers, f"rates{next(_fleets)}", clock)), clock
    await servers.close()


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
def limiter(request: pytest.FixtureRequest) -> Limiter:
    if request.param == "redis":
        return Limiter(*request.getfixturevalue("redis_rates"))
    clock = Clock()
    return Limiter(MemoryRates(clock), clock)


async def test_a_call_goes_at_once_while_there_is_room(limiter: Limiter):
    assert await limiter.call().comes() == Permit(limiter.clock.now_ms, 61)


async def test_a_call_beyond_the_rate_is_told_when_to_come_again(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=122)
    await limiter.used_up()

    assert await limiter.call().comes_early() == (500, 500)
    assert await limiter.call().comes_early() == (1_000, 1_000)


async def test_who_comes_as_told_goes(limiter: Limiter):
    await limiter.used_up()
    call = await limiter.waiting()
    limiter.pass_ms(999)
    await call.comes_early()
    limiter.pass_ms(1)
    await call.goes()


async def test_a_long_wait_is_told_in_parts_and_as_a_whole(limiter: Limiter):
    await limiter.used_up()
    waits = [await limiter.call().comes_early() for _ in range(20)]
    assert waits[-1] == (PACE.told_ms, 20_000)


async def test_tokens_are_limited_beside_requests(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=6_100, tokens_per_minute=61_000)
    await limiter.call(tokens=3_000).goes()  # 1,000 tokens are a second

    assert await limiter.call(tokens=1).comes_early() == (2_000, 2_000)


async def test_an_estimate_is_put_right_afterwards(limiter: Limiter):
    limiter.quota = Quota(tokens_per_minute=61_000)
    await limiter.call(tokens=3_000).goes()
    await limiter.call(tokens=1, owed_tokens=-2_500).goes()
    assert await limiter.call(tokens=1, owed_tokens=2_000).comes_early() == (1_501, 1_501)


async def test_another_key_has_meters_of_its_own(limiter: Limiter):
    await limiter.used_up()
    await limiter.call(key="f" * 32).goes()


async def test_within_a_trace_first_come_is_first_served(limiter: Limiter):
    await limiter.used_up()
    first, second = await limiter.waiting(), await limiter.waiting()
    limiter.pass_ms(1_000)
    await second.comes_early()
    await first.goes()


async def test_a_trace_of_one_goes_before_the_backlog_of_a_trace_of_many(limiter: Limiter):
    await limiter.used_up()
    many = [await limiter.waiting(ANN) for _ in range(200)]
    one = limiter.call(BEN)

    assert await one.comes_early() == (2_000, 2_000)
    limiter.pass_ms(1_000)
    await many[0].goes()
    limiter.pass_ms(1_000)
    await many[1].comes_early()
    await one.goes()


async def test_who_leaves_the_line_gives_the_place_back(limiter: Limiter):
    await limiter.used_up()
    first, second = await limiter.waiting(), await limiter.waiting()
    await limiter.rates.leave(KEY, first.ask.ticket)
    limiter.pass_ms(1_000)
    await second.goes()


async def test_who_died_in_line_costs_the_others_one_calls_time(limiter: Limiter):
    await limiter.used_up()
    _dead, second, third = [await limiter.waiting() for _ in range(3)]
    limiter.pass_ms(2_000)
    await second.goes()
    limiter.pass_ms(1_000)
    await third.goes()


async def test_who_does_not_come_as_told_holds_nobody_up_and_keeps_its_place(limiter: Limiter):
    await limiter.used_up()
    late = await limiter.waiting()
    limiter.pass_ms(1_000 + PACE.late_ms)
    await limiter.call(BEN).goes()

    others = [await limiter.waiting() for _ in range(3)]
    limiter.pass_ms(499)
    await others[0].comes_early()
    limiter.pass_ms(1)
    await late.goes()


async def test_nobody_goes_before_retry_after_is_over(limiter: Limiter):
    permit = await limiter.call().goes()
    await limiter.rates.slow_down(KEY, permit, SIXTY, pause_ms=30_000)

    call = limiter.call(BEN)
    assert await call.comes_early() == (5_000, 30_000)
    limiter.pass_ms(5_000)
    assert await call.comes_early() == (5_000, 25_000)
    limiter.pass_ms(25_000)
    await call.goes()


async def test_after_a_pause_calls_go_evenly_and_slower(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    await limiter.rates.slow_down(KEY, await limiter.call().goes(), limiter.quota, pause_ms=1_000)
    limiter.pass_ms(1_000)
    assert (await limiter.call().goes()).per_minute == pytest.approx(567.3)
    assert await limiter.call().comes_early() == (108, 108)


async def test_a_provider_that_asks_for_a_day_is_asked_after_an_hour(limiter: Limiter):
    await limiter.rates.slow_down(KEY, await limiter.call().goes(), SIXTY, pause_ms=86_400_000)
    assert await limiter.call().comes_early() == (PACE.told_ms, MAX_PAUSE_MS)


async def refuse(limiter: Limiter, permit: Permit, *, served: bool = True) -> float:
    """The share of the limit that is left after one more 429 to a call with this permit."""
    await limiter.rates.slow_down(KEY, permit, limiter.quota, pause_ms=0)
    limiter.pass_ms(60_000)
    return round((await limiter.call(served=served).goes()).per_minute / 610, 3)


async def test_a_burst_of_429s_cuts_the_limit_once(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    permits = [await limiter.call().goes() for _ in range(5)]
    limiter.pass_ms(50)
    assert [await refuse(limiter, permit) for permit in permits] == [0.93] * 5


async def test_a_second_episode_soon_after_cuts_deeper(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    await refuse(limiter, await limiter.call().goes())
    assert await refuse(limiter, await limiter.call().goes()) == 0.651


async def test_a_provider_that_serves_nobody_is_not_a_slower_one(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    await refuse(limiter, await limiter.call().goes(), served=False)
    assert await refuse(limiter, await limiter.call().goes(), served=False) == 0.93


async def test_the_limit_has_a_floor(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    for _ in range(20):
        lowest = await refuse(limiter, await limiter.call().goes())
        limiter.pass_ms(60_000)
    assert lowest == PACE.least


async def use(limiter: Limiter, for_ms: int) -> Permit:
    """Calls that always wait, each coming as told; the last one's permit."""
    until_ms, call = limiter.clock.now_ms + for_ms, limiter.call()
    while True:
        found = await call.comes()
        if isinstance(found, Later):
            limiter.pass_ms(found.wait_ms)
        elif limiter.clock.now_ms > until_ms:
            return found
        else:
            call = limiter.call()


async def test_the_limit_comes_back_while_it_is_used_and_never_exceeds_what_is_configured(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    await limiter.rates.slow_down(KEY, await limiter.call().goes(), limiter.quota, pause_ms=0)
    half_way = await use(limiter, 10_000)
    assert 0.97 * 610 < half_way.per_minute < 610
    assert (await use(limiter, 30_000)).per_minute == 610


async def test_a_limit_that_nobody_uses_does_not_grow(limiter: Limiter):
    limiter.quota = Quota(requests_per_minute=610)
    await refuse(limiter, await limiter.call().goes())
    for _ in range(100):
        limiter.pass_ms(1_500)
        found = await limiter.call().goes()
    assert found.per_minute == pytest.approx(610 * PACE.cut)


async def test_without_a_configured_limit_nobody_waits_until_the_first_429(limiter: Limiter):
    limiter.quota = Quota()
    permits = [await limiter.call().goes() for _ in range(300)]
    limiter.pass_ms(1)
    await limiter.rates.slow_down(KEY, permits[-1], limiter.quota, pause_ms=0)

    assert (await limiter.call().goes()).per_minute == pytest.approx(300 * 60 * PACE.cut, rel=0.01)
    assert await limiter.call().comes_early() == (4, 4)


async def test_one_429_on_a_quiet_day_leaves_room_for_a_fan_out(limiter: Limiter):
    limiter.quota = Quota()
    await limiter.rates.slow_down(KEY, await limiter.call().goes(), limiter.quota, pause_ms=0)
    assert (await limiter.call().goes()).per_minute == pytest.approx(PACE.measured_least * PACE.cut)


async def test_state_in_memory_is_forgotten_when_it_is_idle():
    clock = Clock()
    limiter = Limiter(MemoryRates(clock), clock, Quota(requests_per_minute=610))
    await refuse(limiter, await limiter.call().goes())
    limiter.pass_ms(PACE.idle_ms + PACE.burst_ms)
    assert await limiter.call().comes() == Permit(clock.now_ms, 610)


@pytest.mark.redis
async def test_every_key_in_redis_has_an_end(redis_rates: tuple[RedisRates, Clock]):
    limiter = Limiter(*redis_rates)
    await limiter.used_up()
    await limiter.waiting()
    await limiter.rates.slow_down(KEY, await limiter.call(key="f" * 32).goes(), SIXTY, pause_ms=60_000)
    cell = limiter.rates._cells.first
    names = await cell.client.call("KEYS", f"{cell.keys.prefix}:rate*")
    lives = [await cell.client.call("PTTL", name) for name in names]
    assert len(names) == 6  # two hashes, two memories of traces, and one line with its moments
    assert all(0 < life <= PACE.idle_ms + 61_001 for life in lives)


@pytest.mark.redis
@pytest.mark.parametrize("seed", range(5))
async def test_the_script_does_what_the_model_does(redis_rates: tuple[RedisRates, Clock], seed: int):
    """The same random steps on both, under one clock: equal answers, to the last digit."""
    chance = random.Random(seed)
    rates, clock = redis_rates
    model = MemoryRates(clock)
    quota = chance.choice([Quota(), Quota(600), Quota(None, 90_000), Quota(6_000, 200_000)])
    waiting: list[Ask] = []
    permits: list[Permit] = []
    met = set()
    for step in range(400):
        clock.now_ms += chance.choice([0, 1, 20, 150, 900])
        what = chance.choices(["ask", "come", "leave", "slow"], [50, 45, 3, 2])[0]
        if what == "slow" and permits:
            permit, pause_ms = chance.choice(permits), chance.choice([0, 500, 3_000])
            for one in (rates, model):
                await one.slow_down(KEY, permit, quota, pause_ms=pause_ms)
        elif what == "leave" and waiting:
            ask = waiting.pop(chance.randrange(len(waiting)))
            for one in (rates, model):
                await one.leave(KEY, ask.ticket)
        elif (what == "come" and waiting) or what == "ask":
            if what == "come":
                ask = waiting.pop(chance.randrange(len(waiting)))
                ask = replace(ask, owed_tokens=chance.choice([0, 0, 40, -40]), served=chance.random() < 0.2)
            else:
                trace = chance.choice([ANN, ANN, ANN, BEN, f"{step:032x}"])
                ask = Ask(KEY, trace, new_task_id(now_ms=clock.now_ms), chance.randrange(2_000), quota)
            found, wanted = await rates.ask(ask), await model.ask(ask)
            assert found == wanted, (step, ask)
            if isinstance(found, Permit):
                permits.append(found)
            else:
                waiting.append(replace(ask, place=found.place))
        met.add(what)
    assert met == {"ask", "come", "leave", "slow"}
    assert permits
