"""Tasks in and out: submit, claim, cancel, reap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from envelope.codec import encode
from envelope.messages import TaskRequest
from envelope.signature import Keyring

from ..admission import parent_gone
from ..base import Claim, Handle, Lease
from ..limits import STRIDE
from .cell import Cell
from .client import MAX_BLOCK_S
from .records import no_task

# Who takes the doorbell's token and dies takes the ring with it; others look again after this long.
MISSED_BELL_S = 5.0
# A lease that ends in the very next moment must not become a busy loop (and 0 would block for ever).
MIN_BLOCK_S = 0.002

Operation = tuple[str, str, int, str, bytes | str, int | str]


async def submit(cell: Cell, keyring: Keyring, requests: Sequence[TaskRequest]) -> list[Handle]:
    """Parents and scopes were checked; the script checks what may have changed since."""
    if not requests:
        return []
    sent = [_row(request, keyring) for request in requests]
    answer: list[Any] = await cell.run("submit", repeatable=True, requests=sent)
    if not answer[0]:
        raise parent_gone(requests[int(answer[1])])
    rows = zip(requests, answer[1:], strict=True)
    return [Handle(task.decode(), trace.decode(), task.decode() != mine.task_id) for mine, (task, trace) in rows]


def _row(request: TaskRequest, keyring: Keyring) -> dict[str, Any]:
    optional = {"intent": request.intent, "batch": request.batch_id}
    return {
        "task": request.task_id,
        "trace": request.trace_id,
        "parent": request.parent_task_id,
        "pool": request.recipient,
        "flow": f"{request.priority}:{request.tenant}:{request.trace_id}",
        "agent": request.agent,
        "deadline_ms": request.deadline_ms,
        "once": f"{request.tenant}:{request.idempotency_key}" if request.idempotency_key else None,
        "cap": request.budget.max_cost_microusd,
        "more": [text for name, value in optional.items() if value for text in (name, value)],
        "envelope": encode(request, keyring=keyring),
    }


async def claim(cell: Cell, pool: str, worker: str, *, slots: int, wait_s: float) -> list[Claim]:
    """Blocks on the doorbell, and wakes when a lease or a deadline ends: there is work in that, too."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        wake_ms, claims = await _take(cell, pool, worker, slots)
        left_s = until - loop.time()
        if claims or left_s <= 0:
            return claims
        # a millisecond on top: the moment itself must have passed
        due_s = (wake_ms + 1) / 1000 if wake_ms >= 0 else MAX_BLOCK_S
        pause_s = max(MIN_BLOCK_S, min(left_s, due_s, MISSED_BELL_S))
        await cell.client.block("BLPOP", cell.keys.name("bell", pool), pause_s)


async def _take(cell: Cell, pool: str, worker: str, slots: int) -> tuple[int, list[Claim]]:
    """Started tasks belong to somebody: when the caller is cancelled meanwhile, they are given back."""
    taking = asyncio.ensure_future(_take_now(cell, pool, worker, slots))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        _, claims = await taking
        if claims:
            await write(cell, [operation("give_back", claim.lease) for claim in claims])
        raise


async def _take_now(cell: Cell, pool: str, worker: str, slots: int) -> tuple[int, list[Claim]]:
    wake_ms, rows = await cell.run("claim", pool=pool, worker=worker, slots=slots, strides=STRIDE)
    return wake_ms, [_claim(row, pool, worker) for row in rows]


def _claim(row: list[Any], pool: str, worker: str) -> Claim:
    task, trace, attempt, envelope, accepted, started, expires, lost, checkpoint = row
    return Claim(
        lease=Lease(task.decode(), trace.decode(), pool, worker, attempt),
        envelope=envelope,
        accepted_at_ms=accepted,
        started_at_ms=started,
        expires_at_ms=expires,
        lost_leases=lost,
        checkpoint=checkpoint.decode() if checkpoint else None,
    )


def operation(kind: str, lease: Lease, data: bytes | str = b"", more: int | str = 0) -> Operation:
    """One write of a worker, as `write.lua` reads it; `more` is the charge of an emit, the status of a finish."""
    return kind, lease.task_id, lease.attempt, lease.worker, data, more


async def write(cell: Cell, operations: Iterable[Operation]) -> list[list[int]]:
    """The outcome of each."""
    return await cell.run("write", operations=list(chain.from_iterable(operations)))


async def cancel(cell: Cell, task_id: str, *, by: str, reason: str) -> int:
    alive = await cell.run("cancel", repeatable=True, task=task_id, by=by, reason=reason)
    if alive < 0:
        raise no_task(task_id)
    return alive


async def reap(cell: Cell) -> int:
    """Each script takes a bounded bite; again while there was a full one."""
    total = 0
    while touched := await cell.run("reap", repeatable=True):
        total += touched
    return total
