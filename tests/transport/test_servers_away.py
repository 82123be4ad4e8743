"""One master of a cluster is dead or silent: what lives in the other cells goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from redis.crc import key_slot

from envelope.agents import WorkerCard
from envelope.ids import new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskResult
from tests.conftest import SLOTS, RedisProcess
from tests.transport.conftest import Fleet, fleets_at
from transport.base import TaskRecord
from transport.consumer import Consumer, Delivery
from transport.errors import Unreachable
from transport.keys import CellKeys, cell_of
from transport.limits import Limits
from transport.redis import cells, claiming

pytestmark = [pytest.mark.redis, pytest.mark.alone]  # some look at the clock

CELLS = 6
TASKS = 50
# On a quiet machine.
PICK_UP_P99_S = 0.1


@dataclass
class Away:
    """A fleet of six cells on three masters, of which one can be taken away."""

    fleet: Fleet
    other: Fleet  # another process of the fleet
    node: RedisProcess
    dead: tuple[int, ...]  # cells of that node; not the first
    living: tuple[int, ...]

    def trace_in(self, *cells: int) -> str:
        while cell_of(trace := new_trace_id(), CELLS) not in cells:
            pass
        return trace

    def take_away(self, how: str) -> None:
        if how == "dead":
            self.node.kill()
        else:
            self.node.process.send_signal(signal.SIGSTOP)

    def bring_back(self) -> None:
        self.node.process.send_signal(signal.SIGCONT)
        if self.node.process.returncode is not None:
            self.node.start()


def _owner(name: str, cell: int) -> int:
    return key_slot(CellKeys(name, cell).prefix.encode()) // (SLOTS // 3 + 1)


def _cells_of_nodes(name: str) -> list[int]:
    """How many each has; the first cell's node is the first."""
    return [*Counter(_owner(name, cell) for cell in range(CELLS)).values()]


@pytest.fixture(scope="module")
def own_cluster(start_own_cluster) -> list[RedisProcess]:
    return start_own_cluster()


@pytest.fixture
async def away(own_cluster) -> AsyncIterator[Away]:
    """The node of the first cell and of three others, as the hardest case."""
    names = (f"away{number}-{time.monotonic_ns()}" for number in range(1000))
    name = next(name for name in names if _cells_of_nodes(name) == [4, 1, 1])
    gone = _owner(name, 0)
    dead = tuple(cell for cell in range(CELLS) if _owner(name, cell) == gone)
    living = tuple(cell for cell in range(CELLS) if cell not in dead)
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in own_cluster)
    async with fleets_at(url, cells=CELLS) as make:
        limits = Limits(lease_ms=6_000)
        away = Away(await make(limits, name), await make(limits, name), own_cluster[gone], dead, living)
        try:
            yield away
        finally:
            away.bring_back()
            for node in own_cluster:
                await _until_whole(node)


async def _until_whole(node: RedisProcess) -> None:
    async with asyncio.timeout(30):
        while not {"cluster_state:ok", "cluster_slots_fail:0"} <= {*node.command("CLUSTER", "INFO").split()}:
            await asyncio.sleep(0.1)


HOW = pytest.mark.parametrize("how", ["dead", "silent"])


@HOW
async def test_tasks_of_living_cells_are_picked_up_at_once(away, how):
    fleet, took_s, stop, came = away.fleet, {}, asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery) -> TaskResult:
        task_id = delivery.request.task_id
        took_s[task_id] = time.monotonic() - submitted[task_id]
        came.set()
        return fleet.result(delivery.claim)

    submitted: dict[str, float] = {}

    async def submit(*cells: int) -> str:
        request = away.other.request(trace_id=away.trace_in(*cells))
        submitted[request.task_id] = time.monotonic()
        await away.other.transport.submit([request])
        return request.task_id

    consumer = Consumer(fleet.transport, pool="explore", worker="w", slots=10, handle=handle)
    running = asyncio.create_task(consumer.run(stop))
    waiting = await submit(*away.dead)

    async def p99_s() -> float:
        fed = []
        for number in range(TASKS):
            fed.append(await submit(away.living[number % len(away.living)]))
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            while not took_s.keys() >= {*fed}:
                await came.wait()
                came.clear()
        return sorted(took_s[task_id] for task_id in fed)[int(TASKS * 0.99) - 1]

    async with asyncio.timeout(20):
        while waiting not in took_s:
            await asyncio.sleep(0.01)
    whole_s = await p99_s()
    away.take_away(how)
    away_s = await p99_s()

    away.bring_back()
    back = await submit(*away.dead)
    async with asyncio.timeout(20):
        while back not in took_s:
            await asyncio.sleep(0.01)
    stop.set()
    await running

    assert away_s <= PICK_UP_P99_S + 2 * whole_s  # a busy machine is slow in both
    records = [await fleet.transport.record(task_id) for task_id in submitted]
    assert {(record.attempt, record.lost_leases) for record in records} == {(1, 0)}


async def test_the_cells_of_a_dead_server_are_left_out_at_once_while_it_is_looked_for(away):
    """What each cell's last failure has forgotten is where its slot is: it is known no more that they live together."""
    transport = away.fleet.transport
    await transport.claim("explore", "w", slots=1, wait_s=0)
    away.take_away("dead")
    for cell in away.dead:
        with suppress(Unreachable):
            await transport._cells.all[cell].client.hasty(()).call("EXISTS", "nothing")

    began_s = time.monotonic()
    await transport.claim("explore", "w", slots=1, wait_s=0)
    assert time.monotonic() - began_s < 2 * cells.PATIENCE_S


async def test_a_late_answer_starts_nothing_twice(away, monkeypatch):
    """It is the worker's next claim, or is given back."""
    fleet = away.fleet
    silent = await fleet.submit(trace_id=away.trace_in(*away.dead))
    await fleet.transport.reap()  # every connection is there
    away.take_away("silent")
    claims = await fleet.transport.claim("explore", "w", slots=1, wait_s=0.5)
    assert claims == []

    away.bring_back()
    (claim,) = await fleet.transport.claim("explore", "w", slots=1, wait_s=10)
    assert (claim.lease.task_id, claim.lease.attempt) == (silent.task_id, 1)
    await fleet.finish(claim)

    monkeypatch.setattr(claiming, "KEPT_S", 0.2)
    unwanted = [await fleet.submit(trace_id=away.trace_in(cell)) for cell in away.dead]
    away.take_away("silent")
    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0.2) == []
    away.bring_back()
    async with asyncio.timeout(10):
        while [record.attempt for record in await _records(fleet, unwanted)].count(1) != 1:
            await asyncio.sleep(0.02)
        while {record.state for record in await _records(fleet, unwanted)} != {State.PENDING}:
            await asyncio.sleep(0.02)
    assert {record.lost_leases for record in await _records(fleet, unwanted)} == {0}


async def test_a_server_that_is_always_slow_is_not_taken_for_one_that_is_away(own_cluster, monkeypatch):
    """Else each claim would start a task in every cell for one free slot. No answer is as fast as this."""
    monkeypatch.setattr(cells, "PATIENCE_S", 0.00001)
    url = f"redis+cluster://127.0.0.1:{own_cluster[0].port}"
    async with fleets_at(url, cells=CELLS) as make:
        fleet = await make()
        await fleet.transport.submit([fleet.request() for _ in range(100)])
        running = []
        for _ in range(40):
            claims = await fleet.transport.claim("explore", "w", slots=1, wait_s=1)
            running.append((await fleet.transport.stats(["explore"]))[0].running)
            for claim in claims:
                await fleet.finish(claim)

    assert sorted(running[10:])[15] == 1  # now and then an answer is late on any machine


async def _records(fleet, requests) -> list[TaskRecord]:
    return [await fleet.transport.record(request.task_id) for request in requests]


async def test_who_runs_in_a_living_cell_hears_of_its_cancellation_at_once(away):
    fleet = away.fleet
    requests = [await fleet.submit(trace_id=away.trace_in(cell)) for cell in (*away.dead[:1], *away.living[:2])]
    claims = []
    while len(claims) < len(requests):
        claims += await fleet.transport.claim("explore", "w", slots=len(requests) - len(claims), wait_s=5)
    leases = [claim.lease for claim in claims]
    keeper = fleet.transport.keeper()
    assert not (await asyncio.to_thread(keeper.renew, leases)).lost
    away.take_away("silent")

    took_s = []
    for request in requests[1:]:
        await away.other.transport.cancel(request.task_id, by="me", reason="enough")
        began = time.monotonic()
        await asyncio.to_thread(keeper.wait, "w", 5)
        renewal = await asyncio.to_thread(keeper.renew, leases)
        took_s.append(time.monotonic() - began)
        assert renewal.cancelled[request.task_id] == "enough"
        assert not renewal.lost

    assert max(took_s) < 1.0
    away.bring_back()
    kept = [lease for lease in leases if lease.task_id == requests[0].task_id]
    async with asyncio.timeout(15):
        while not await asyncio.to_thread(_is_renewed, keeper, kept):
            await asyncio.sleep(0.1)
    await asyncio.to_thread(keeper.close)


def _is_renewed(keeper, leases) -> bool:
    try:
        return not keeper.renew(leases).lost
    except Unreachable:
        return False


async def test_what_is_asked_of_living_cells_is_answered_at_once(away):
    """By a process that neither submitted nor claimed the task, while the first cell is away."""
    fleet, other = away.fleet, away.other
    request = await fleet.submit(trace_id=away.trace_in(*away.living))
    card = WorkerCard(worker="w1", pool="explore", slots=1)
    await fleet.transport.announce(card, ttl_s=60)
    away.take_away("silent")
    began = time.monotonic()

    assert await other.transport.now_ms() > 0
    assert [card.worker for card in await other.transport.workers()] == ["w1"]
    assert (await other.transport.record(request.task_id)).task_id == request.task_id
    await other.transport.submit([other.child(request)])
    waiting = asyncio.create_task(other.ended(request.task_id))
    (claim,) = await fleet.transport.claim("explore", "w1", slots=1, wait_s=5)
    await fleet.finish(claim)
    assert (await waiting).task_id == request.task_id
    took_s = time.monotonic() - began
    await fleet.transport.announce(card, ttl_s=60)

    assert took_s < 2.0


async def test_a_process_that_starts_meanwhile_works_for_the_living_cells(away):
    request = await away.fleet.submit(trace_id=away.trace_in(*away.living))
    away.take_away("silent")

    async with asyncio.timeout(5), fleets_at(away.fleet.url, cells=CELLS) as make:
        late = await make(name=away.fleet.name)
        (claim,) = await late.transport.claim("explore", "w", slots=1, wait_s=1)
        await late.finish(claim)

    assert claim.lease.task_id == request.task_id


async def test_a_fleet_does_not_begin_without_all_its_cells(away):
    away.take_away("silent")

    async with asyncio.timeout(10), fleets_at(away.fleet.url, cells=CELLS) as make:
        with pytest.raises(Unreachable):
            await make(name="begun-by-nobody")


def test_a_cell_is_not_waited_for_longer_than_a_pick_up_may_take():
    assert cells.PATIENCE_S < PICK_UP_P99_S
