"""What an orchestrator process shows of the whole fleet: as the queue says it, and nothing when nobody can know."""

from __future__ import annotations

import itertools

import pytest

from envelope.agents import WorkerCard
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.metrics.fleet import FleetView
from orchestrator.metrics.published import Published
from orchestrator.publication.book import Book, Publication, Stage
from orchestrator.publication.terms import Terms
from orchestrator.submit import BATCH, DRIVERS, task_request
from transport.base import Claim, Wait
from transport.delivery import failed
from transport.errors import Unreachable
from transport.keyring import fresh
from transport.memory import MemoryTransport
from transport.raising import ask_for_more

NOW_MS = 1_790_000_000_000


class Watched:
    """A fleet in memory whose clock the test holds, and one process that looks at it."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.transport = MemoryTransport(keyring=fresh(), clock=lambda: self.now_ms)
        self.metrics = OrchestratorMetrics()
        self.view = FleetView(self.transport, self.metrics.shown)
        self._seqs = itertools.count()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"muster_{name}", labels)

    async def submit(self, **fields):
        told = {"agent": "build", "pool": "build", "deadline_ms": 600_000, "auth_scope": (), **fields}
        request = task_request(**told).model_copy(update={"created_at_ms": self.now_ms})
        await self.transport.submit([request])
        return request

    async def claim(self, pool: str = "build") -> Claim:
        [claim] = await self.transport.claim(pool, "w", slots=1, wait_s=1)
        return claim

    async def tell(self, claim: Claim, *events, charge_microusd: int = 0) -> None:
        lease = claim.lease
        progress = TaskProgress(
            trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, seq=next(self._seqs),
            at_ms=self.now_ms, status=State.RUNNING, events=events,
        )  # fmt: skip
        await self.transport.emit(lease, progress, charge_microusd=charge_microusd)


@pytest.fixture
def fleet() -> Watched:
    return Watched()


async def test_queues_slots_and_workers(fleet: Watched):
    for worker in ("a", "b"):
        card = WorkerCard(worker=worker, pool="build", slots=4, agents=())
        await fleet.transport.announce(card, ttl_s=60)
    for _ in range(3):
        await fleet.submit()
    fleet.now_ms += 7_000
    await fleet.claim()

    await fleet.view.look({"build", "explore", DRIVERS})

    shown = {name: fleet.value(name, pool="build") for name in (
        "queue_ready", "queue_running", "queue_demand", "queue_slots", "pool_workers", "queue_oldest_ready_age_seconds",
    )}  # fmt: skip
    assert list(shown.values()) == [2, 1, 3, 8, 2, 7.0]
    assert (fleet.value("pool_workers", pool="explore"), fleet.value("queue_ready", pool=DRIVERS)) == (0, 0)
    assert (fleet.value("dead_letter_tasks"), fleet.value("fenced_writes_total")) == (0, 0)


async def test_dead_letters_and_fenced_writes(fleet: Watched):
    await fleet.submit()
    claim = await fleet.claim()
    await fleet.transport.finish(claim.lease, failed(claim.lease, ErrorCode.BAD_INPUT, "odd"), dead="odd")
    with pytest.raises(Exception, match="no longer"):
        await fleet.tell(claim, AskOpened(ask_id="ask_x", permission="bash"))

    await fleet.view.look({"build"})

    assert (fleet.value("dead_letter_tasks"), fleet.value("fenced_writes_total")) == (1, 1)
    assert (fleet.value("leases_reaped_total"), fleet.value("tasks_poisoned_total")) == (0, 0)


async def test_who_waits_for_what_and_since_when(fleet: Watched):
    await fleet.view.look({"build"})
    for number, asks in enumerate([("ask_1",), ("ask_2",), (ask_for_more(5),)]):
        await fleet.submit()
        claim = await fleet.claim()
        for ask in asks:
            await fleet.tell(claim, AskOpened(ask_id=ask, permission=("bash", "edit", "")[number]))
        await fleet.transport.park(claim.lease, Wait(asks=frozenset(asks)))
        fleet.now_ms += 10_000
    parent = await fleet.submit()
    caller = await fleet.claim()
    child = await fleet.submit(parent=parent, pool="explore")
    await fleet.transport.park(caller.lease, Wait(children=frozenset({child.task_id})))

    await fleet.view.look_around()

    parked = {
        reason: fleet.value("queue_parked", pool="build", reason=reason) for reason in ("ask", "children", "money")
    }
    assert parked == {"ask": 2, "children": 1, "money": 1}
    assert [fleet.value("approvals_pending", kind=kind) for kind in ("bash", "edit")] == [1, 1]
    assert fleet.value("approval_oldest_age_seconds") == 30.0

    [first, *_] = [task for task in await fleet.transport.tasks() if task.waits_for == ("ask_1",)]
    await fleet.transport.answer(first.task_id, "ask_1", '{"choice": "once"}', by="tester")
    await fleet.view.look_around()
    assert fleet.value("approvals_pending", kind="bash") == 0
    assert fleet.value("approval_oldest_age_seconds") == 20.0


async def test_a_task_that_waits_with_its_slot_is_counted_as_one_that_waits(fleet: Watched):
    await fleet.submit()
    claim = await fleet.claim()
    await fleet.tell(claim, AskOpened(ask_id="ask_1", permission="edit"))
    await fleet.transport.hold(claim.lease, frozenset({"ask_1"}))
    fleet.now_ms += 10_000

    await fleet.view.look_around()

    assert fleet.value("queue_parked", pool="build", reason="ask") == 1
    assert fleet.value("approvals_pending", kind="edit") == 1
    assert fleet.value("approval_oldest_age_seconds") == 10.0


async def test_shards_of_batches_under_way_and_of_no_others(fleet: Watched):
    batch = await fleet.submit(agent=BATCH, pool=DRIVERS)
    await fleet.claim(DRIVERS)
    for _ in range(3):
        await fleet.submit(agent="recipe", batch_id=batch.task_id)
    claim = await fleet.claim()
    await fleet.transport.finish(claim.lease, failed(claim.lease, ErrorCode.RECIPE_FAILED, "no"))
    await fleet.claim()
    await fleet.submit(agent="recipe", batch_id="t_of_another_time")

    await fleet.view.look_around()

    states = {state: fleet.value("batch_shards", state=state) for state in ("pending", "running", "error", "completed")}
    assert states == {"pending": 1, "running": 1, "error": 1, "completed": 0}


async def test_the_money_of_tenants_with_a_cap_and_without(fleet: Watched):
    await fleet.transport.fund("capped", 1_000_000, by="tester")
    for tenant, charge_microusd in (("capped", 750_000), ("free", 2_000_000)):
        await fleet.submit(tenant=tenant, budget=Budget())
        claim = await fleet.claim()
        await fleet.tell(claim, charge_microusd=charge_microusd)
        await fleet.transport.give_back(claim.lease)
        await fleet.transport.cancel(claim.lease.task_id, by="tester", reason="done")

    await fleet.view.look_around()

    assert fleet.value("budget_remaining_ratio", tenant="capped") == 0.25
    assert fleet.value("budget_remaining_ratio", tenant="free") is None
    spent = {tenant: fleet.value("tenant_cost_usd_total", tenant=tenant) for tenant in ("capped", "free")}
    assert spent == {"capped": 0.75, "free": 2.0}


async def test_of_many_tenants_the_hundred_that_spent_most_are_told_apart(fleet: Watched):
    for number in range(120):
        tenant = f"tenant{number}"
        await fleet.submit(tenant=tenant, budget=Budget())
        claim = await fleet.claim()
        await fleet.tell(claim, charge_microusd=1_000_000 * (number + 1))
        await fleet.transport.cancel(claim.lease.task_id, by="tester", reason="done")

    await fleet.view.look_around()

    assert fleet.value("tenant_cost_usd_total", tenant="tenant119") == 120
    assert fleet.value("tenant_cost_usd_total", tenant="tenant19") is None
    assert fleet.value("tenant_cost_usd_total", tenant="other") == sum(range(1, 21))


async def test_what_nobody_can_know_is_not_shown(fleet: Watched):
    await fleet.view.look({"build"})
    assert fleet.value("queue_ready", pool="build") == 0

    async def away():
        raise Unreachable("away")

    fleet.transport.workers = away
    with pytest.raises(Unreachable):
        await fleet.view.look({"build"})

    assert fleet.value("queue_ready", pool="build") is None
    assert fleet.value("tasks_running", pool=DRIVERS) == 0


async def test_what_becomes_of_published_changes_is_counted_from_the_first_look_on(tmp_path):
    metrics = OrchestratorMetrics()
    book, published = Book(tmp_path), Published(tmp_path, metrics)

    def note(key: str, stage: Stage) -> None:
        book.put(
            Publication(
                key=key, remote="r", forge="hub", branch="b", terms=Terms(), task_id="t", bundle="x", base="0",
                commit="1", title="t", stage=stage,
            )
        )  # fmt: skip

    note("old", Stage.MERGED)
    await published.look()
    note("one", Stage.INTENDED)
    await published.look()
    note("one", Stage.OPEN)
    await published.look()
    await published.look()

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"muster_{name}", labels)

    counted = {
        stage: value("publications_total", forge="hub", outcome=stage) for stage in ("merged", "intended", "open")
    }
    assert counted == {"merged": None, "intended": 1, "open": 1}
    assert [value("changesets", state=stage) for stage in ("merged", "open", "held")] == [1, 1, 0]


async def test_what_is_older_than_a_thousand_roots_is_counted(fleet: Watched):
    await fleet.submit()
    claim = await fleet.claim()
    await fleet.tell(claim, AskOpened(ask_id="ask_1", permission="bash"))
    await fleet.transport.park(claim.lease, Wait(asks=frozenset({"ask_1"})))
    parent = await fleet.submit()
    waits = await fleet.claim()
    child = await fleet.submit(parent=parent, pool="explore")
    await fleet.transport.park(waits.lease, Wait(children=frozenset({child.task_id})))
    batch = await fleet.submit(agent=BATCH, pool=DRIVERS)
    await fleet.submit(agent="recipe", batch_id=batch.task_id)
    fleet.now_ms += 60_000
    for _ in range(1_001):
        await fleet.submit(pool="explore")

    await fleet.view.look({"build"})
    await fleet.view.look_around()

    assert fleet.value("approvals_pending", kind="bash") == 1
    assert fleet.value("approval_oldest_age_seconds") == 60
    assert [fleet.value("queue_parked", pool="build", reason=reason) for reason in ("ask", "children")] == [1, 1]
    assert fleet.value("batch_shards", state="pending") == 1
