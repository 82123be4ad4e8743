"""The scripts against the model: the same random steps on Redis and in memory, under one clock that the test moves.

Compared after every step: what each call gave back (which tasks a claim starts, in which order), every record, the
listings of what is under way and of what waits for people, the figures of the pools, the money of the traces, the dead
letters. At the end of each run all tasks are brought to their end, and the whole streams are compared.
`MUSTER_STATEFUL_RUNS` makes it longer (`make soak`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from envelope.budget import Budget
from envelope.errors import ErrorCode, MusterError
from envelope.events import TextDelta
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, Priority, TaskProgress, TaskRequest, TaskResult
from transport import approvals
from transport.base import Allotment, Claim, Lease, LeaseKeeper, TaskRecord, Transport, Wait
from transport.blobs import MemoryBlobs
from transport.embedded import Server
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport
from transport.raising import ASK_FOR_MORE as TRACES_CAP
from transport.raising import TENANTS as TENANTS_CAP
from transport.raising import ask_for_more, ask_for_more_of_tenant
from transport.redis import RedisTransport
from transport.redis.cell import Cell
from transport.redis.cells import Cells
from transport.redis.leases import RedisKeeper
from transport.redis.servers import Servers

pytestmark = pytest.mark.redis

RUNS = int(os.environ.get("MUSTER_STATEFUL_RUNS", "50"))
STEPS = 100  # 5,000 in all
FURTHEST_BACK_MS = 2_000

# Short leases and few places, so that a hundred steps meet all that can happen.
LIMITS = Limits(lease_ms=1_000, poison_after=2, children_per_trace=2, replay_window_ms=10_000_000, bite_every_ms=0)
# Every tree is too large for one script.
SMALL_BITES = replace(LIMITS, tasks_per_script=2)
POOLS = ("explore", "build")
WORKERS = ("w1", "w2", "w3")
TENANTS = ("a", "a-b")  # names of which one begins with the other sort differently with and without what follows
# What a task asks people: a question, or for more money than it may spend now, or than it might have spent before.
ASKS = ("q1", "q2", "its trace's money", "its tenant's money", "what it once asked for")
CAPS = (None, 50, 100, 150)
KEYRING = fresh()
ORDINARY = st.fixed_dictionaries(
    {
        "recipient": st.sampled_from(POOLS),
        "tenant": st.sampled_from(TENANTS),
        "priority": st.sampled_from(Priority),
        "deadline_ms": st.sampled_from([500, 5_000, 50_000]),
        "batch_id": st.sampled_from(["", "", "b"]),
    }
)
_fleets = itertools.count()


@dataclass(slots=True, eq=False)
class Clock:
    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class ClockedCells(Cells):
    """One cell whose scripts go by the test's clock."""

    def __init__(self, servers: Servers, fleet: str, clock: Clock, limits: Limits) -> None:
        super().__init__(servers, fleet, limits)
        self.all = tuple(replace(cell, clock=clock) for cell in self.all)
        self.first = self.all[0]


@dataclass(slots=True)
class Pair:
    """The two implementations, and the loop that both run on."""

    runner: asyncio.Runner
    model: Transport
    real: Transport
    do_chores: Callable[[], Coroutine[Any, Any, None]]
    differ: bool = False

    def both(self, call: Callable[[Transport], Coroutine[Any, Any, Any]]) -> Any:
        """The outcome of a call, the same from both, and all that follows from it is done."""
        expected, got = self.runner.run(_outcome(call(self.model))), self.runner.run(_outcome(call(self.real)))
        self.runner.run(self.do_chores())
        self.differ = got != expected
        assert got == expected
        return expected


async def _outcome(call: Coroutine[Any, Any, Any]) -> Any:
    """What came back, or what went wrong."""
    try:
        return await call
    except MusterError as error:
        return type(error).__name__, getattr(error, "field", "")


async def renewed(open_keeper: Callable[[], LeaseKeeper], leases: list[Lease]) -> Any:
    keeper = open_keeper()
    try:
        renewal = await asyncio.to_thread(keeper.renew, leases)
    finally:
        await asyncio.to_thread(keeper.close)
    return renewal.lost, renewal.cancelled, renewal.expired


def some_of(most: int) -> st.SearchStrategy[int]:
    """Counted from the latest: what is new is met most."""
    return st.integers(0, most)


class ScriptsAndModel(RuleBasedStateMachine):
    limits = LIMITS

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        super().__init__()
        self.clock = Clock()
        fleet = f"stateful{next(_fleets)}"
        cells = self.cells(url, fleet)
        self.cell = cells.first
        real = RedisTransport(cells, KEYRING, approvals.none(), MemoryBlobs(), POOLS)
        model = MemoryTransport(clock=self.clock, limits=LIMITS, keyring=KEYRING, approval_keys=approvals.none())
        self.pair = Pair(runner, model, real, partial(self.do_chores, cells.first))
        self.keepers = {
            self.pair.model: self.pair.model.keeper,
            self.pair.real: lambda: RedisKeeper(self.cells(url, fleet)),
        }
        self.both = self.pair.both
        self.requests: list[TaskRequest] = []
        self.claims: list[Claim] = []
        self.numbers = itertools.count(1)

    def cells(self, url: str, fleet: str) -> Cells:
        return ClockedCells(Servers(url), fleet, self.clock, self.limits)

    async def do_chores(self, cell: Cell) -> None:
        """Nothing is left to do of what was decided."""

    def reap_before(self) -> None:
        """A claim and a renewal reap by themselves."""

    def teardown(self) -> None:
        if not self.pair.differ:  # else what comes after the first difference would hide it
            self.end_everything()
            self.compare_streams()
        self.pair.runner.run(self.pair.real.close())

    # -- what there is

    def request_at(self, back: int) -> TaskRequest:
        return self.requests[-1 - back % len(self.requests)]

    def claim_at(self, back: int) -> Claim:
        return self.claims[-1 - back % len(self.claims)]

    def lease_at(self, back: int) -> Lease:
        return self.claim_at(back).lease

    def new_request(self, **fields: Any) -> TaskRequest:
        number = next(self.numbers)
        given = {
            "task_id": f"{number:08x}-0000-7000-8000-{number:012x}",
            "trace_id": f"{number:032x}",
            "sender": "test",
            "agent": "explore",
            "created_at_ms": self.clock.now_ms,
        }
        return TaskRequest(**{**given, **fields})

    # -- submitting

    def submit(self, requests: list[TaskRequest], under: Lease | None = None) -> None:
        outcome = self.both(lambda transport: transport.submit(requests, under=under))
        if isinstance(outcome, list):
            accepted = {handle.task_id for handle in outcome}
            known = {request.task_id for request in self.requests}
            self.requests += [r for r in requests if r.task_id in accepted and r.task_id not in known]

    @initialize()
    def submit_one(self) -> None:
        self.submit([self.new_request(recipient="explore", deadline_ms=50_000)])

    @rule(
        count=st.integers(1, 4),
        cap=st.sampled_from([None, 100]),
        key=st.sampled_from(["", "", "k1", "k2"]),
        one_trace=st.booleans(),
        fields=ORDINARY,
    )
    def submit_roots(self, count: int, cap: int | None, key: str, one_trace: bool, fields: dict[str, Any]) -> None:
        budget = Budget(max_cost_microusd=cap)
        requests = [self.new_request(budget=budget, idempotency_key=key, **fields) for _ in range(count)]
        if one_trace:
            requests = [request.model_copy(update={"trace_id": requests[0].trace_id}) for request in requests]
        self.submit(requests)

    @rule(
        back=some_of(8),
        count=st.integers(1, 4),
        lease=st.none() | some_of(5),
        fields=ORDINARY,
    )
    def submit_children(self, back: int, count: int, lease: int | None, fields: dict[str, Any]) -> None:
        parent = self.request_at(back)
        family = {"parent_task_id": parent.task_id, "trace_id": parent.trace_id}
        under = self.lease_at(lease) if lease is not None and self.claims else None
        self.submit([self.new_request(**fields, **family) for _ in range(count)], under)

    @rule(deadline_ms=st.sampled_from([500, 5_000]), fields=ORDINARY)
    def submit_a_family(self, deadline_ms: int, fields: dict[str, Any]) -> None:
        parent = self.new_request(**{**fields, "deadline_ms": deadline_ms})
        family = {"parent_task_id": parent.task_id, "trace_id": parent.trace_id}
        self.submit([parent, self.new_request(**fields, **family), self.new_request(**fields, **family)])

    @rule(back=some_of(8), count=st.integers(1, 2), fields=ORDINARY)
    def go_on_with_a_session(self, back: int, count: int, fields: dict[str, Any]) -> None:
        session = self.request_at(back).task_id
        self.submit([self.new_request(resume_token=session, **fields) for _ in range(count)])

    @rule(back=some_of(20))
    def submit_again(self, back: int) -> None:
        self.submit([self.request_at(back)])

    @rule(off_ms=st.sampled_from([-20_000_000, 20_000_000]), fields=ORDINARY)
    def submit_a_replay(self, off_ms: int, fields: dict[str, Any]) -> None:
        self.submit([self.new_request(created_at_ms=self.clock.now_ms + off_ms, **fields)])

    # -- working

    @rule(pool=st.sampled_from(POOLS), worker=st.sampled_from(WORKERS), slots=st.integers(1, 6))
    def claim(self, pool: str, worker: str, slots: int) -> None:
        self.reap_before()
        self.claims += self.both(lambda transport: transport.claim(pool, worker, slots=slots, wait_s=0))

    def progress(self, lease: Lease) -> TaskProgress:
        return TaskProgress(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            seq=next(self.numbers),
            at_ms=self.clock.now_ms,
            status=State.RUNNING,
            events=(TextDelta(text="…"),),
        )

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5), charge=st.sampled_from([0, 0, 10, 50]), release=st.sampled_from([0, 0, 20, 1_000]))
    def emit(self, back: int, charge: int, release: int) -> None:
        lease = self.lease_at(back)
        progress = self.progress(lease)
        self.both(lambda t: t.emit(lease, progress, charge_microusd=charge, release_microusd=release))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5), amount=st.sampled_from([10, 40]))
    def reserve(self, back: int, amount: int) -> None:
        self.both(lambda transport: transport.reserve(self.lease_at(back), amount))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5), heard=st.integers(0, 2))
    def checkpoint(self, back: int, heard: int) -> None:
        blob = f"sha256:{next(self.numbers):064x}"
        self.both(lambda transport: transport.checkpoint(self.lease_at(back), blob, heard=heard))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5))
    def read_the_inbox(self, back: int) -> None:
        self.both(lambda transport: transport.inbox(self.lease_at(back)))

    @precondition(lambda self: self.claims)
    @rule(
        back=some_of(5),
        status=st.sampled_from([State.COMPLETED] * 4 + [State.ERROR, State.CANCELLED, State.EXPIRED]),
        dead=st.booleans(),
        again=st.booleans(),
        last=st.sampled_from([None, None, 0, 30]),
    )
    def finish(self, back: int, status: State, dead: bool, again: bool, last: int | None) -> None:
        """`last`: what is charged with a progress that is told right before the end; None: there is none."""
        lease = self.lease_at(back)
        result = TaskResult(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            status=status,
            output=Output(text="done"),
            errors=(ErrorInfo.of(ErrorCode.BAD_INPUT, "no"),) if status is State.ERROR else (),
        )
        why = "it cannot be read" if dead and status is State.ERROR else ""
        told = {} if last is None else {"progress": self.progress(lease), "charge_microusd": last}
        for _ in range(1 + again):
            self.both(lambda transport: transport.finish(lease, result, dead=why, **told))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5))
    def give_back(self, back: int) -> None:
        self.both(lambda transport: transport.give_back(self.lease_at(back)))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5), delay_ms=st.sampled_from([0, 100, 3_000]))
    def retry(self, back: int, delay_ms: int) -> None:
        self.both(lambda transport: transport.retry(self.lease_at(back), delay_ms=delay_ms, reason="later"))

    def names_of(self, asks: set[str], trace_id: str) -> frozenset[str]:
        """`ASKS` as a task of this trace asks them: for money it asks by the cap that it has met."""
        tenant = next(request.tenant for request in self.requests if request.trace_id == trace_id)
        trace = self.pair.runner.run(self.pair.model.ledger(trace_id))
        funds = self.pair.runner.run(self.pair.model.funds(tenant))
        names = {
            "its trace's money": ask_for_more(trace.cap_microusd or 100),
            "its tenant's money": ask_for_more_of_tenant(funds.cap_microusd or 100),
            "what it once asked for": ask_for_more(50 if trace.cap_microusd else 100),
        }
        return frozenset(names.get(ask, ask) for ask in asks)

    @precondition(lambda self: self.claims)
    @rule(
        back=some_of(5),
        children=st.lists(some_of(8), max_size=3),
        asks=st.sets(st.sampled_from(ASKS)),
        for_ms=st.none() | st.sampled_from([0, 300, 3_000]),
        first=st.booleans(),
    )
    def park(self, back: int, children: list[int], asks: set[str], for_ms: int | None, first: bool) -> None:
        lease = self.lease_at(back)
        # a task waits for children of its own
        own = {r.task_id for r in map(self.request_at, children) if r.parent_task_id == lease.task_id}
        until_ms = None if for_ms is None else self.clock.now_ms + for_ms
        wait = Wait(frozenset(own), self.names_of(asks, lease.trace_id), until_ms, first)
        self.both(lambda transport: transport.park(lease, wait))

    @precondition(lambda self: self.claims)
    @rule(back=some_of(5), asks=st.sets(st.sampled_from(ASKS)))
    def hold(self, back: int, asks: set[str]) -> None:
        lease = self.lease_at(back)
        names = self.names_of(asks, lease.trace_id)
        self.both(lambda transport: transport.hold(lease, names))

    @precondition(lambda self: self.claims)
    @rule(
        back=some_of(2), ask=st.sampled_from(ASKS[2:4]), before=st.sampled_from(["", "it holds its lease", "stopped"])
    )
    def wait_for_money(self, back: int, ask: str, before: str) -> None:
        lease = self.lease_at(back)
        names = self.names_of({ask}, lease.trace_id)
        if before == "stopped":
            self.both(lambda transport: transport.cancel(lease.task_id, by="me", reason="enough"))
        elif before:
            self.both(lambda transport: transport.hold(lease, names))
        self.both(lambda transport: transport.park(lease, Wait(asks=names)))

    @precondition(lambda self: self.claims)
    @rule(backs=st.lists(some_of(8), min_size=1, max_size=5), pool=st.sampled_from(POOLS))
    def renew(self, backs: list[int], pool: str) -> None:
        leases = [lease for lease in map(self.lease_at, backs) if lease.pool == pool]
        if leases:
            self.reap_before()
            self.both(lambda transport: renewed(self.keepers[transport], leases))

    # -- from outside

    @rule(back=some_of(12))
    def cancel(self, back: int) -> None:
        task_id, number = self.request_at(back).task_id, next(self.numbers)
        self.both(lambda transport: transport.cancel(task_id, by=f"person {number}", reason=f"reason {number}"))

    @rule(back=some_of(8), ask=st.sampled_from(ASKS))
    def answer(self, back: int, ask: str) -> None:
        request, number = self.request_at(back), next(self.numbers)
        (name,) = self.names_of({ask}, request.trace_id)
        self.both(lambda transport: transport.answer(request.task_id, name, f"text {number}", by="me"))
        self.both(lambda transport: transport.answers(request.task_id))

    @rule(back=some_of(8), cap=st.sampled_from(CAPS[1:]))
    def raise_cap(self, back: int, cap: int) -> None:
        trace_id = self.request_at(back).trace_id
        self.both(lambda transport: transport.raise_cap(trace_id, cap, by="me"))

    @rule(tenant=st.sampled_from(TENANTS), cap=st.sampled_from(CAPS))
    def fund(self, tenant: str, cap: int | None) -> None:
        self.both(lambda transport: transport.fund(tenant, cap, by="me"))

    @rule(back=some_of(8))
    def prompt(self, back: int) -> None:
        task_id, number = self.request_at(back).task_id, next(self.numbers)
        self.both(lambda transport: transport.prompt(task_id, f"word {number}", by="me"))

    @rule(
        tenant=st.sampled_from(TENANTS),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
        most=st.none() | st.sampled_from([1, 2, 4]),
    )
    def allot(self, tenant: str, weight: float, most: int | None) -> None:
        self.both(lambda transport: transport.allot(tenant, Allotment(weight, most)))
        self.both(lambda transport: transport.allotments())

    @rule(back=some_of(8))
    def purge(self, back: int) -> None:
        self.both(lambda transport: transport.purge([self.request_at(back).task_id]))

    # -- time

    # A look that comes more than a third of a lease after the last stops the lease clock.
    @rule(by_ms=st.sampled_from([1, 100, 300, 333, 334, 400, 1_001, 4_000, -100, -FURTHEST_BACK_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.clock.now_ms += by_ms

    @rule()
    def reap(self) -> None:
        for transport in (self.pair.model, self.pair.real):
            self.pair.runner.run(transport.reap())

    # -- what must be the same

    @invariant()
    def the_records_are_the_same(self) -> None:
        self.records()

    def records(self) -> list[TaskRecord]:
        traces = sorted({request.trace_id for request in self.requests})

        async def of(transport: Transport) -> list[TaskRecord]:
            found = await asyncio.gather(*(transport.tasks(trace_id=trace_id, limit=1_000) for trace_id in traces))
            return [record for records in found for record in records]

        return self.both(of)

    @invariant()
    def the_figures_are_the_same(self) -> None:
        async def of(transport: Transport) -> Any:
            stats = [(pool.pool, pool.ready, pool.running, pool.parked) for pool in await transport.stats(POOLS)]
            # the moment of a letter is its id in the server's stream, on the server's own clock
            letters = [astuple(letter)[:-1] for letter in await transport.dead_letters()]
            return stats, letters, await transport.counters()

        self.both(of)

    @invariant()
    def the_listings_say_what_is_under_way_and_who_waits_for_people(self) -> None:
        """Of all that is there, and of each tenant: the keys themselves, for a page passes over what is stale."""
        names = [(listing, *tenant) for listing in ("live", "shards", "asking") for tenant in ((), *zip(TENANTS))]
        model, cell = self.pair.model, self.cell
        listings = {
            "live": lambda tenant: model.live_roots(tenant=tenant, shards=False, limit=1_000),
            "shards": lambda tenant: model.live_roots(tenant=tenant, shards=True, limit=1_000),
            "asking": lambda tenant: model.asking(tenant=tenant, limit=1_000),
        }

        async def compare() -> None:
            found = await cell.client.read_many([("ZRANGE", cell.keys.name(*name), 0, -1) for name in names])
            for (listing, *tenant), members in zip(names, found, strict=True):
                page = await listings[listing](tenant[0] if tenant else None)
                listed = [task_id.decode() for task_id in members]
                assert [record.task_id for record in page.records] == (listed if listing == "asking" else listed[::-1])

        self.pair.runner.run(compare())

    @invariant()
    def who_waits_for_money_is_listed_for_it_and_nobody_else(self) -> None:
        lists: dict[str, set[str]] = {self.cell.keys.name("short", tenant): set() for tenant in TENANTS}
        lists |= {self.cell.keys.name("capped", request.trace_id): set() for request in self.requests}
        for record in self.records():
            for name in record.waits_for:
                if name.startswith(TENANTS_CAP):
                    lists[self.cell.keys.name("short", record.tenant)].add(record.task_id)
                elif name.startswith(TRACES_CAP):
                    lists[self.cell.keys.name("capped", record.trace_id)].add(record.task_id)
        found = self.pair.runner.run(self.cell.client.read_many([("HKEYS", name) for name in lists]))
        for (name, waiting), members in zip(lists.items(), found, strict=True):
            assert {task_id.decode() for task_id in members} == waiting, name

    @invariant()
    def the_money_is_the_same(self) -> None:
        for tenant in TENANTS:
            self.both(lambda transport, tenant=tenant: transport.funds(tenant))
        for trace_id in {request.trace_id for request in self.requests}:
            self.both(lambda transport, trace_id=trace_id: transport.ledger(trace_id))
        latest = {claim.lease.trace_id: claim.lease for claim in self.claims if self.is_running(claim.lease)}
        for lease in latest.values():
            self.both(lambda transport, lease=lease: transport.reserve(lease, 0))

    def is_running(self, lease: Lease) -> bool:
        record = self.pair.runner.run(self.pair.model.record(lease.task_id))
        return record.state is State.RUNNING and record.attempt == lease.attempt

    # -- the end

    def end_everything(self) -> None:
        for request in self.requests:
            self.both(lambda t, request=request: t.cancel(request.task_id, by="me", reason="the end"))
        # the grace of what was cancelled before the clock was set back ends so much later
        self.clock.now_ms += LIMITS.expiry_grace_ms + STEPS * FURTHEST_BACK_MS
        self.reap()
        assert not [record for record in self.records() if record.finished_at_ms is None]

    def compare_streams(self) -> None:
        for trace_id in sorted({request.trace_id for request in self.requests}):
            lives = self.both(lambda transport, trace_id=trace_id: lives_in(transport, trace_id))
            for messages in lives.values():
                assert [isinstance(message, TaskResult) for message in messages].count(True) == 1  # each has ended once


class SmallBites(ScriptsAndModel):
    """What no script has time for is done in bites, right after the call. What is due is done before a claim or a
    renewal, for these do only some of it."""

    limits = SMALL_BITES

    async def do_chores(self, cell: Cell) -> None:
        while await cell.client.call("EXISTS", cell.keys.name("chores")):
            await cell.run("chores", task="")

    def reap_before(self) -> None:
        self.reap()


async def lives_in(transport: Transport, trace_id: str) -> dict[str, list[TaskProgress | TaskResult]]:
    """What is told of each task; children of one parent that end with it do so in any order."""
    lives: dict[str, list[TaskProgress | TaskResult]] = {}
    for message in await stream(transport, trace_id):
        lives.setdefault(message.task_id, []).append(message)
    return lives


async def stream(transport: Transport, trace_id: str) -> list[TaskProgress | TaskResult]:
    """All that is kept, past the root's result, too."""
    messages, after = [], "0"
    while page := [entry async for entry in transport.follow(trace_id, after=after)]:
        messages += [entry.message for entry in page]
        after = page[-1].id
    return messages


@pytest.mark.parametrize(("machine", "runs"), [(ScriptsAndModel, RUNS), (SmallBites, RUNS // 5)])
def test_the_scripts_do_what_the_model_does(redis_server: Server, machine: type[ScriptsAndModel], runs: int):
    with asyncio.Runner() as runner:
        run_state_machine_as_test(
            lambda: machine(runner, redis_server.url),
            settings=settings(
                max_examples=runs,
                phases=(
                    Phase.explicit,
                    Phase.generate,
                ),  # making a rare failure smaller takes minutes; its seed is printed
                stateful_step_count=STEPS,
                deadline=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
