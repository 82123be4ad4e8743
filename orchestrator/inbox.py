"""All that waits for people: what tasks ask, and the money that they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from envelope.plan import Plan
from transport.base import TaskRecord, Transport
from transport.errors import NotFound
from transport.money import Ledger
from transport.raising import TENANTS

from .asks import PLAN_EXIT, OpenAsk, asks_of
from .budgets import waits_for_money
from .client import Muster
from .families import root_of
from .plans import plans_of

# More than anybody reads at once; of a task there may be several asks.
TASKS_AT_ONCE = 200

T = TypeVar("T")


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
    """A page of it. `plans`: what is known so far of the plan that an ask is about, by the ask's task.

    `tasks`: how many wait for people in all. `cursor`: what to go on after; empty at the end.
    """

    asks: Sequence[OpenAsk] = ()
    money: Sequence[MoneyAsk] = ()
    plans: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    tasks: int = 0
    cursor: str = ""

    @property
    def count(self) -> int:
        return len(self.asks) + len(self.money)


async def inbox_of(muster: Muster, tenant: str | None, *, after: str = "") -> Inbox:
    """Of a tenant, or of everybody: of the tasks that wait longest, up to `TASKS_AT_ONCE` from a cursor on."""
    transport = muster.transport
    page = await transport.asking(tenant=tenant, after=after, limit=TASKS_AT_ONCE)
    asks = await asks_of(page.records, muster.ask_texts)
    plans = await _plans(muster, asks)
    # A plan stands still for as long as it is asked about: of an ask that is open yet, it is the one that was read.
    asks = [one for one in asks if one.task.task_id not in plans or await _is_open(transport, one)]
    money = await _money(muster, list(filter(waits_for_money, page.records)))
    return Inbox(asks, money, plans, page.total or 0, page.cursor)


async def _is_open(transport: Transport, one: OpenAsk) -> bool:
    record = await _known(transport.record(one.task.task_id))
    return record is not None and one.ask.ask_id in record.waits_for


async def _money(muster: Muster, waiting: Sequence[TaskRecord]) -> list[MoneyAsk]:
    traces = list(dict.fromkeys(task.trace_id for task in waiting if not _needs_tenants(task)))
    found = await asyncio.gather(*(_known(_payer(muster.transport, each)) for each in traces))
    payers = {trace: root for trace, root in zip(traces, found, strict=True) if root is not None}
    by_name: dict[str, list[TaskRecord]] = {}
    roots: dict[str, TaskRecord] = {}
    for task in waiting:
        if _needs_tenants(task):
            by_name.setdefault(f"tenant-{task.tenant}", []).append(task)
        elif root := payers.get(task.trace_id):
            name = f"trace-{root.trace_id}"
            roots[name] = root
            by_name.setdefault(name, []).append(task)
    made = [_money_ask(muster, name, tuple(tasks), roots.get(name)) for name, tasks in by_name.items()]
    return [one for one in await asyncio.gather(*map(_known, made)) if one is not None]


def _needs_tenants(task: TaskRecord) -> bool:
    """Is it the tenant's cap that is to be raised?"""
    return any(name.startswith(TENANTS) for name in task.waits_for)


async def _payer(transport: Transport, trace_id: str) -> TaskRecord:
    """Whose cap it is: of a shard its batch's, which shares it out."""
    root = await root_of(transport, trace_id)
    batch = await _known(transport.record(root.batch_id)) if root.batch_id else None
    return batch or root


async def _money_ask(muster: Muster, name: str, tasks: tuple[TaskRecord, ...], root: TaskRecord | None) -> MoneyAsk:
    if root is None:
        return MoneyAsk(name, tasks, await muster.tenant_budget(tasks[0].tenant))
    return MoneyAsk(name, tasks, (await muster.budget(root.trace_id)).ledger, root)


async def _plans(muster: Muster, asks: Iterable[OpenAsk]) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for one in asks:
        tree = await _known(muster.tree(one.task.trace_id)) if one.ask.permission == PLAN_EXIT else None
        if tree and (plan := next(iter(plans_of(tree, one.task).values()), None)) is not None:
            plans[one.task.task_id] = plan
    return plans


async def _known(found: Awaitable[T]) -> T | None:
    """None for what is no longer kept: of many who wait, one that is gone hides none of the others."""
    with suppress(NotFound):
        return await found
    return None
