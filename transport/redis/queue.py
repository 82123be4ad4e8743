"""Tasks in and out of one cell: submit, take, write, cancel, reap."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, count
from typing import Any, cast

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
from .faults import memory_full

Operation = tuple[str, str, int, str, Any, Any]

# How many values `claim.lua` tells of a task.
CLAIM_VALUES = 11
# How many tasks one claim starts; a test compares it with `claim.lua`.
MAX_STARTS = 200
# What one script accepts: some milliseconds of the server's time.
PART_TASKS, PART_BYTES = 100, 2 * 1024 * 1024
BOUNDS = (b"queued", b"tree")
WITHDRAWN = "a later part of its submission was refused"
# A quiet server ends a blocking read up to 100 ms late, so shorter waits (for the next bite of a chore) sleep here.
SHORTEST_WAIT_S = 0.03
# A nudge that came too late is of no use to anybody.
NUDGE_S = 60

# Of calls that change something: a repeated one carries the same number, and is not done twice.
_serials = count(1)


def rows(requests: Sequence[TaskRequest], keyring: Keyring) -> list[dict[str, Any]]:
    """Each request as `submit.lua` takes it, signed. `Refused` for one that cannot travel, and for too much at once."""
    found = [_row(request, keyring) for request in requests]
    check_bytes([row["envelope"] for row in found])
    return found


async def submit(
    cell: Cell, requests: Sequence[TaskRequest], rows: Sequence[dict[str, Any]], under: Lease | None = None
) -> list[Handle]:
    """With their `rows`. Parents and scopes were checked; the scripts check what may have changed since.

    All or none of a part. When a later one is refused, what was accepted before is cancelled.
    """
    order = _by_trace(requests)
    accepted = await _submit_in_parts(cell, [requests[at] for at in order], [rows[at] for at in order], under)
    handles = dict(zip(order, accepted, strict=True))
    return [handles[at] for at in range(len(requests))]


def _by_trace(requests: Sequence[TaskRequest]) -> list[int]:
    """Places, trace by trace where there are several parts: a script that meets few traces takes half of the time."""
    if len(requests) <= PART_TASKS:
        return list(range(len(requests)))
    traces: dict[str, list[int]] = {}
    for at, request in enumerate(requests):
        traces.setdefault(request.trace_id, []).append(at)
    return list(chain.from_iterable(traces.values()))


async def _submit_in_parts(
    cell: Cell, requests: Sequence[TaskRequest], rows: Sequence[dict[str, Any]], under: Lease | None
) -> list[Handle]:
    submitter = [under.task_id, under.attempt, under.worker] if under else None
    later = Counter(chain.from_iterable(map(_bounded_by, rows)))
    admitted: dict[str, bool] = {}
    # A part whose answer was lost must say the same again: which of its tasks are new.
    caller, numbers = f"submission-{secrets.token_hex(8)}", count(1)
    handles: list[Handle] = []
    begun: list[str] = []
    for part in _parts(rows):
        mine = requests[len(handles) : len(handles) + len(part)]
        names = Counter(chain.from_iterable(map(_bounded_by, part)))
        later -= names
        call: dict[str, Any] = {"requests": part, "under": submitter}
        call["admitted"] = dict.fromkeys(names.keys() & admitted.keys(), True)
        if len(part) < len(requests):
            call["once"] = (caller, next(numbers))
        answer: list[Any] = await _accept(cell, rows[len(handles) + len(part) :], names, later, call)
        if not answer[0]:
            await _withdraw(cell, begun)
            _refuse(mine, under, answer)
        tasks, traces, are_new = _texts(answer[1::3]), _texts(answer[2::3]), cast(list[int], answer[3::3])
        for row, task, is_new in zip(part, tasks, are_new, strict=True):
            if is_new:  # what was known already was not judged
                begun.append(task)
                admitted |= dict.fromkeys(_bounded_by(row), True)
        handles += [
            Handle(task, trace, task != one.task_id) for one, task, trace in zip(mine, tasks, traces, strict=True)
        ]
    return handles


async def _accept(
    cell: Cell, rest: Sequence[dict[str, Any]], names: Iterable[str], later: Counter[str], call: dict[str, Any]
) -> list[Any]:
    """What is still to come counts, too. Some of it may be known already; that is looked at when it is too much."""
    coming = {name: later[name] for name in names if later[name]}
    answer: list[Any] = await cell.run("submit", repeatable=True, later=coming, **call)
    if answer[0] or not coming or answer[2] not in BOUNDS:
        return answer
    known = await cell.client.read_many([("EXISTS", cell.keys.name("task", row["task"])) for row in rest])
    new = [row for row, is_known in zip(rest, known, strict=True) if not is_known]
    unknown = Counter(chain.from_iterable(map(_bounded_by, new)))
    return await cell.run("submit", repeatable=True, later={name: unknown[name] for name in coming}, **call)


def _bounded_by(row: dict[str, Any]) -> tuple[str, str]:
    """What bounds a request, by the names that `submit.lua` gives them: its tenant's line, and its tree."""
    return f"line:{row['flow'].partition(':')[0]}", f"tree:{row['trace']}"


def _texts(values: list[bytes]) -> list[str]:
    return [value.decode() for value in values]


def _parts(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size_bytes = 0
    for row in rows:
        row_bytes = len(row["envelope"])
        if part and (len(part) == PART_TASKS or size_bytes + row_bytes > PART_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(row)
        size_bytes += row_bytes
    if part:
        yield part


async def _withdraw(cell: Cell, task_ids: Sequence[str]) -> None:
    """What ends with its parent is not there any more when its turn comes."""
    for task_id in task_ids:
        await cancel(cell, task_id, by="", reason=WITHDRAWN)


def _refuse(requests: Sequence[TaskRequest], under: Lease | None, answer: list[Any]) -> None:
    if under is not None and answer[2] == b"fenced":
        raise fenced(under)
    if answer[2] == b"full":
        raise memory_full()
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
        "shard": bool(request.batch_id),
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


async def take(
    cell: Cell, pool: str, worker: str, slots: int, *, bell_s: float = 0.0, but_of: Sequence[str] = ()
) -> tuple[int, list[Claim]]:
    """Start up to `slots` tasks; milliseconds until there may be something without a ring of the bell (-1: none).

    With `bell_s` not before the pool's bell has rung, or that time is over.
    Started tasks belong to somebody: when the caller is cancelled meanwhile, they are given back.
    """
    taking = asyncio.ensure_future(_take(cell, pool, worker, slots, bell_s, but_of))
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


async def _take(
    cell: Cell, pool: str, worker: str, slots: int, bell_s: float, but_of: Sequence[str]
) -> tuple[int, list[Claim]]:
    """In several scripts where one may not start so many."""
    wake_ms, claims = await _take_some(cell, pool, worker, slots, bell_s, but_of)
    latest = claims
    with suppress(TransportError):  # what was started before is the worker's all the same
        while len(latest) >= MAX_STARTS and len(claims) < slots:
            wake_ms, latest = await _take_some(cell, pool, worker, slots - len(claims), 0, but_of)
            claims = claims + latest
    return wake_ms, claims


async def _take_some(
    cell: Cell, pool: str, worker: str, slots: int, bell_s: float, but_of: Sequence[str]
) -> tuple[int, list[Claim]]:
    call: dict[str, Any] = {"pool": pool, "worker": worker, "slots": slots, "once": (worker, next(_serials))}
    call |= {"strides": STRIDE, "lane_stride": LANE_STRIDE, "missed_ms": cell.client.missed_ms()}
    if but_of:
        call["but_of"] = list(but_of)
    if 0 < bell_s < SHORTEST_WAIT_S:
        await asyncio.sleep(bell_s)
    elif bell_s:
        bells = ("BLPOP", cell.keys.name("bell", pool), cell.keys.name("nudge", worker), bell_s)
        wake_ms, now_ms, values = await cell.run_after("claim", bells, bell_s, **call)
        return wake_ms, await _claims(cell, values, now_ms, pool, worker)
    wake_ms, now_ms, values = await cell.run("claim", repeatable=True, **call)
    return wake_ms, await _claims(cell, values, now_ms, pool, worker)


async def _claims(cell: Cell, values: list[Any], now_ms: int, pool: str, worker: str) -> list[Claim]:
    rows = [values[at : at + CLAIM_VALUES] for at in range(0, len(values), CLAIM_VALUES)]
    claims = [(row, _readable(row, now_ms, pool, worker)) for row in rows]
    await _bury(cell, worker, [row for row, claim in claims if claim is None], pool)
    return [claim for _, claim in claims if claim]


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
    """Whoever cancels a large tree does it in bites; who claims or renews goes on where a caller goes away."""
    call = {"task": task_id, "by": by, "reason": reason, "told": told(reason)}
    alive, is_open = await cell.run("cancel", repeatable=True, **call)
    if alive < 0:
        raise no_task(task_id)
    loop = asyncio.get_running_loop()
    while is_open:
        asked_s = loop.time()
        next_ms, is_open, alive = await cell.run("chores", repeatable=True, task=task_id)
        if is_open:  # the pause counts from the beginning of a bite
            await asyncio.sleep(asked_s + next_ms / 1000 - loop.time())
    return alive


async def reap(cell: Cell) -> int:
    """Each script takes a bounded bite; again while there was something to do."""
    total = 0
    while True:
        touched, bite_ms = await cell.run("reap", repeatable=True)
        total += touched
        if not touched and bite_ms < 0:
            return total
        if not touched:
            await asyncio.sleep(bite_ms / 1000)
