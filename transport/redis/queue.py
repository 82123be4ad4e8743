"""Tasks in and out of one cell: submit, take, write, cancel, reap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, count
from typing import Any

from envelope.codec import encode, unpack_plain
from envelope.errors import DecodeError, ErrorCode
from envelope.messages import TaskRequest
from envelope.signature import Keyring

from ..admission import check_bytes, flow_of, refusal, too_large, work_of
from ..audit import told
from ..base import Claim, Handle, Lease
from ..delivery import failed
from ..errors import Fenced, TransportError, no_task
from ..limits import LANE_STRIDE, STRIDE
from .cell import Cell

Operation = tuple[str, str, int, str, Any, Any]

# How many values `claim.lua` tells of a task.
CLAIM_VALUES = 11
# A nudge that came too late is of no use to anybody.
NUDGE_S = 60

# Of calls that change something: a repeated one carries the same number, and is not done twice.
_serials = count(1)


async def submit(
    cell: Cell, keyring: Keyring, requests: Sequence[TaskRequest], under: Lease | None = None
) -> list[Handle]:
    """Parents and scopes were checked; the script checks what may have changed since."""
    if not requests:
        return []
    sent = [_row(request, keyring) for request in requests]
    check_bytes([row["envelope"] for row in sent])
    submitter = [under.task_id, under.attempt, under.worker] if under else None
    answer: list[Any] = await cell.run("submit", repeatable=True, requests=sent, under=submitter)
    if not answer[0]:
        _refuse(requests, under, answer)
    ids: list[str] = [text.decode() for text in answer[1:]]
    rows = zip(requests, ids[::2], ids[1::2], strict=True)
    return [Handle(task, trace, task != mine.task_id) for mine, task, trace in rows]


def _refuse(requests: Sequence[TaskRequest], under: Lease | None, answer: list[Any]) -> None:
    if under is not None and answer[2] == b"fenced":
        raise fenced(under)
    raise refusal(requests[int(answer[1])], answer[2].decode(), answer[3].decode())


def _row(request: TaskRequest, keyring: Keyring) -> dict[str, Any]:
    optional = {"intent": request.intent, "batch": request.batch_id}
    try:
        envelope = encode(request, keyring=keyring)
    except DecodeError as error:
        raise too_large(request, error) from error
    return {
        "task": request.task_id,
        "trace": request.trace_id,
        "parent": request.parent_task_id,
        "pool": request.recipient,
        "flow": f"{request.tenant}:{request.priority}:{flow_of(request)}",
        "agent": request.agent,
        "deadline_ms": request.deadline_ms,
        "created": request.created_at_ms,
        "session": request.resume_token or None,
        "once": f"{request.tenant}:{request.idempotency_key}" if request.idempotency_key else None,
        "work": work_of(request),
        "batch": request.batch_id or None,
        "cap": request.budget.max_cost_microusd,
        "more": [text for name, value in optional.items() if value for text in (name, value)],
        "envelope": envelope,
    }


async def take(cell: Cell, pool: str, worker: str, slots: int, *, bell_s: float = 0.0) -> tuple[int, list[Claim]]:
    """Start up to `slots` tasks; milliseconds until there may be something without a ring of the bell (-1: none).

    With `bell_s` not before the pool's bell has rung, or that time is over.
    Started tasks belong to somebody: when the caller is cancelled meanwhile, they are given back.
    """
    taking = asyncio.ensure_future(_take(cell, pool, worker, slots, bell_s))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        # in a task of its own: who is in a hurry may cancel once more
        await asyncio.shield(asyncio.ensure_future(_take_back(cell, worker, taking)))
        raise


async def _take_back(cell: Cell, worker: str, taking: asyncio.Future[tuple[int, list[Claim]]]) -> None:
    nudge = cell.keys.name("nudge", worker)
    with suppress(TransportError):  # one try: the wait for the bell ends by itself, too
        await cell.client.hasty(()).read_many([("LPUSH", nudge, 1), ("EXPIRE", nudge, NUDGE_S)])
    with suppress(TransportError):  # a server that is away: the leases end by themselves
        _, claims = await taking
        if claims:
            given = (operation("give_back", claim.lease) for claim in claims)
            await write(cell, given, once=(worker, next(_serials)))


async def _take(cell: Cell, pool: str, worker: str, slots: int, bell_s: float) -> tuple[int, list[Claim]]:
    call: dict[str, Any] = {"pool": pool, "worker": worker, "slots": slots, "once": (worker, next(_serials))}
    call |= {"strides": STRIDE, "lane_stride": LANE_STRIDE}
    if bell_s:
        bells = ("BLPOP", cell.keys.name("bell", pool), cell.keys.name("nudge", worker), bell_s)
        wake_ms, now_ms, values = await cell.run_after("claim", bells, bell_s, **call)
    else:
        wake_ms, now_ms, values = await cell.run("claim", repeatable=True, **call)
    rows = [values[at : at + CLAIM_VALUES] for at in range(0, len(values), CLAIM_VALUES)]
    claims = [(row, _readable(row, now_ms, pool, worker)) for row in rows]
    await _bury(cell, worker, [row for row, claim in claims if claim is None], pool)
    return wake_ms, [claim for _, claim in claims if claim]


def _readable(row: list[Any], now_ms: int, pool: str, worker: str) -> Claim | None:
    """None for a record that somebody has spoilt: the others of the same claim must not suffer for it."""
    try:
        return _claim(row, now_ms, pool, worker)
    except (ValueError, TypeError, AttributeError):
        return None


async def _bury(cell: Cell, worker: str, rows: Sequence[list[Any]], pool: str) -> None:
    if not rows:
        return
    leases = [Lease(_text(row[0]), _text(row[1]), pool, worker, row[2]) for row in rows]
    result = "its record in Redis cannot be read"
    more = ["error", b"", 0, ErrorCode.BAD_INPUT, result]
    letters = [operation("finish", lease, encode(failed(lease, ErrorCode.BAD_INPUT, result)), more) for lease in leases]
    await write(cell, letters, once=(worker, next(_serials)))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _claim(row: list[Any], now_ms: int, pool: str, worker: str) -> Claim:
    task, trace, attempt, envelope, accepted, expires, lost, retries, first, checkpoint, session = row
    return Claim(
        lease=Lease(task.decode(), trace.decode(), pool, worker, attempt),
        envelope=bytes(envelope or b""),
        accepted_at_ms=int(accepted),
        started_at_ms=now_ms,
        expires_at_ms=int(expires),
        lost_leases=int(lost),
        retries=int(retries),
        first_started_at_ms=int(first),
        checkpoint=checkpoint.decode() if checkpoint else None,
        session=session.decode() if session else None,
    )


def operation(kind: str, lease: Lease, data: Any = b"", more: Any = 0) -> Operation:
    """One write of a worker, as `write.lua` reads it."""
    return kind, lease.task_id, lease.attempt, lease.worker, data, more


async def write(cell: Cell, operations: Iterable[Operation], *, once: tuple[str, int]) -> list[list[Any]]:
    """The outcome of each. `once`: who writes, and the number of this write; it may be repeated, and is done once."""
    values = list(chain.from_iterable(operations))
    return unpack_plain(await cell.run("write", repeatable=True, operations=values, once=once))


def fenced(lease: Lease) -> Fenced:
    return Fenced(f"the lease on {lease.task_id} (attempt {lease.attempt}) is no longer {lease.worker}'s")


async def cancel(cell: Cell, task_id: str, *, by: str, reason: str) -> int:
    alive = await cell.run("cancel", repeatable=True, task=task_id, by=by, reason=reason, told=told(reason))
    if alive < 0:
        raise no_task(task_id)
    return alive


async def reap(cell: Cell) -> int:
    """Each script takes a bounded bite; again while there was a full one."""
    total = 0
    while touched := await cell.run("reap", repeatable=True):
        total += touched
    return total
