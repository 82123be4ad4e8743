"""The money of traces, batches and tenants: what is spent, set aside and allowed, and who waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from envelope.lifecycle import TERMINAL
from envelope.messages import Name
from transport.base import TaskRecord, Transport
from transport.money import Ledger
from transport.raising import ASK_FOR_MORE, TENANTS

from .errors import BadInput
from .submit import BATCH, EVAL, FANOUT

# Their shards are traces of their own, each with an equal part of the money.
SHARDED = (BATCH, FANOUT, EVAL)
# Ledgers that are read, or raised, at once.
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Funds:
    """`ledger` has the sums. `parts`: of a batch its shards', by task.

    `reserved` and `waiting`: what tasks have set aside for what they are at, and those that wait for more money.
    """

    ledger: Ledger
    parts: Mapping[str, Ledger]
    reserved: Mapping[str, int]
    waiting: tuple[str, ...]


async def funds_of(transport: Transport, root: TaskRecord, tasks: Sequence[TaskRecord]) -> Funds:
    """Of a trace by its `root`, or of a batch; `tasks`: of the trace, and a batch's shards."""
    own = await transport.ledger(root.trace_id)
    shards = [task for task in tasks if _is_shard(task, root)]
    parts = await _ledgers(transport, shards)
    whole = replace(
        own,
        spent_microusd=own.spent_microusd + sum(part.spent_microusd for part in parts.values()),
        reserved_microusd=own.reserved_microusd + sum(part.reserved_microusd for part in parts.values()),
    )
    return Funds(whole, parts, reserved_by(tasks), tuple(task.task_id for task in tasks if waits_for_money(task)))


async def raise_cap(transport: Transport, root: TaskRecord, cap_microusd: int, *, by: str) -> Ledger:
    """Let a trace, a batch or a fan-out spend up to this; a driver shares out what that is more (`raises.py`)."""
    if root.agent == EVAL:  # its samples are compared under equal limits
        hint = "raise limits.budget_usd there, and run it again: what was done is not done again"
        raise BadInput("the budget of a suite stands in its file", hint=hint)
    return await transport.raise_cap(root.trace_id, cap_microusd, by=by)


async def share_cap(
    transport: Transport, root: TaskRecord, tasks: Iterable[TaskRecord], cap_microusd: int, *, kept_microusd: int
) -> bool:
    """Give to the shards that live, in equal parts, what none has spent, or may spend by its own cap, and what is not
    kept for shards to come. Whether there was anybody. Two at once for one root would give it twice."""
    shards = [task for task in tasks if _is_shard(task, root)]
    live = [shard for shard in shards if shard.state not in TERMINAL]
    if not live:
        return False
    spent = await _ledgers(transport, [shard for shard in shards if shard.state in TERMINAL])
    caps = {name: part.cap_microusd or 0 for name, part in (await _ledgers(transport, live)).items()}
    paid = (await transport.ledger(root.trace_id)).spent_microusd + sum(part.spent_microusd for part in spent.values())
    left = cap_microusd - paid - sum(caps.values()) - kept_microusd  # nobody's cap is lowered
    more = max(0, left) // len(live)
    for some in _in_groups(live if more else []):
        raised = (transport.raise_cap(shard.trace_id, caps[shard.task_id] + more, by=root.task_id) for shard in some)
        await asyncio.gather(*raised)
    return True


def waits_for_money(task: TaskRecord) -> bool:
    return any(name.startswith((ASK_FOR_MORE, TENANTS)) for name in task.waits_for)


def reserved_by(tasks: Iterable[TaskRecord]) -> Mapping[str, int]:
    return {task.task_id: task.reserved_microusd for task in tasks if task.reserved_microusd}


def checked_tenant(name: str) -> str:
    """The same, or `BadInput`: it is part of the names of keys."""
    try:
        return TypeAdapter[str](Name).validate_python(name)
    except ValidationError as e:
        raise BadInput(f"{name!r} is no tenant's name", hint="up to 100 of: letters, digits and . _ / -") from e


def _is_shard(task: TaskRecord, root: TaskRecord) -> bool:
    return task.batch_id == root.task_id and task.trace_id != root.trace_id


async def _ledgers(transport: Transport, tasks: Sequence[TaskRecord]) -> dict[str, Ledger]:
    found: dict[str, Ledger] = {}
    for some in _in_groups(tasks):
        ledgers = await asyncio.gather(*(transport.ledger(task.trace_id) for task in some))
        found.update({task.task_id: ledger for task, ledger in zip(some, ledgers, strict=True)})
    return found


def _in_groups(tasks: Sequence[TaskRecord]) -> Iterable[Sequence[TaskRecord]]:
    return (tasks[start : start + AT_ONCE] for start in range(0, len(tasks), AT_ONCE))
