"""All that waits for people: what tasks ask, and the money that they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from envelope.plan import Plan
from transport.base import TaskRecord, Transport
from transport.errors import NotFound
from transport.money import Ledger
from transport.raising import TENANTS

from .asks import MAX_TASKS, PLAN_EXIT, OpenAsk, asks_of, live_traces
from .budgets import waits_for_money
from .client import Muster
from .families import root_of
from .plans import plans_of


@dataclass(frozen=True, slots=True)
class MoneyAsk:
    """Tasks that go on once a cap is raised: that of a trace or batch, by its `root`, or that of a whole tenant."""

    name: str  # unlike that of all others
    tasks: tuple[TaskRecord, ...]
    ledger: Ledger
    root: TaskRecord | None = None

    @property
    def tenant(self) -> str:
        return self.tasks[0].tenant


@dataclass(frozen=True, slots=True)
class Inbox:
    """`plans`: what is known so far of the plan that an ask is about, by the ask's task."""

    asks: Sequence[OpenAsk] = ()
    money: Sequence[MoneyAsk] = ()
    plans: Mapping[str, Plan] = field(default_factory=dict[str, Plan])

    @property
    def count(self) -> int:
        return len(self.asks) + len(self.money)


async def inbox_of(muster: Muster, tenant: str | None) -> Inbox:
    """Of a tenant, or of everybody."""
    transport = muster.transport
    traces = await live_traces(transport, tenant)
    found = await asyncio.gather(*(transport.tasks(trace_id=each, limit=MAX_TASKS) for each in traces))
    tasks = [task for each in found for task in each if tenant in (None, task.tenant)]
    asks = await asks_of(tasks, transport)
    plans = await _plans(muster, asks)
    # A plan stands still for as long as it is asked about: of an ask that is open yet, it is the one that was read.
    asks = [one for one in asks if one.task.task_id not in plans or await _is_open(transport, one)]
    return Inbox(asks, await _money(muster, filter(waits_for_money, tasks)), plans)


async def _is_open(transport: Transport, one: OpenAsk) -> bool:
    with suppress(NotFound):
        return one.ask.ask_id in (await transport.record(one.task.task_id)).waits_for
    return False


async def _money(muster: Muster, waiting: Iterable[TaskRecord]) -> list[MoneyAsk]:
    by_name: dict[str, list[TaskRecord]] = {}
    roots: dict[str, TaskRecord] = {}
    for task in waiting:
        if any(name.startswith(TENANTS) for name in task.waits_for):
            name = f"tenant-{task.tenant}"
        else:
            root = await _payer(muster.transport, task.trace_id)
            name = f"trace-{root.trace_id}"
            roots[name] = root
        by_name.setdefault(name, []).append(task)
    return [await _money_ask(muster, name, tuple(tasks), roots.get(name)) for name, tasks in by_name.items()]


async def _payer(transport: Transport, trace_id: str) -> TaskRecord:
    """Whose cap it is: of a shard its batch's, which shares it out."""
    root = await root_of(transport, trace_id)
    with suppress(NotFound):  # the batch is no longer kept
        return await transport.record(root.batch_id) if root.batch_id else root
    return root


async def _money_ask(muster: Muster, name: str, tasks: tuple[TaskRecord, ...], root: TaskRecord | None) -> MoneyAsk:
    if root is None:
        return MoneyAsk(name, tasks, await muster.tenant_budget(tasks[0].tenant))
    return MoneyAsk(name, tasks, (await muster.budget(root.trace_id)).ledger, root)


async def _plans(muster: Muster, asks: Iterable[OpenAsk]) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for one in asks:
        if one.ask.permission == PLAN_EXIT:
            known = plans_of(await muster.tree(one.task.trace_id), one.task)
            if (plan := next(iter(known.values()), None)) is not None:
                plans[one.task.task_id] = plan
    return plans
