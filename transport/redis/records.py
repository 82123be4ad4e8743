"""What is known: tasks, pools, workers, counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from envelope.agents import WorkerCard
from envelope.codec import decode_request, decode_result
from envelope.lifecycle import State
from envelope.messages import TaskRequest, TaskResult
from envelope.signature import Keyring

from ..base import PoolStats, TaskRecord
from ..errors import NotFound
from .cell import Cell

FIELDS = (
    "trace", "pool", "agent", "state", "attempt", "accepted", "expires", "parent", "started", "finished", "worker",
    "lost", "intent", "batch",
)  # fmt: skip


def no_task(task_id: str) -> NotFound:
    return NotFound(f"there is no task {task_id}", hint="tasks are kept for 7 days after their end, by default")


async def request(cell: Cell, keyring: Keyring, task_id: str) -> TaskRequest:
    envelope = await cell.client.call("HGET", cell.keys.name("task", task_id), "envelope")
    if envelope is None:
        raise no_task(task_id)
    return decode_request(envelope, keyring=keyring)


async def result(cell: Cell, task_id: str) -> TaskResult | None:
    state, found = await cell.client.call("HMGET", cell.keys.name("task", task_id), "state", "result")
    if state is None:
        raise no_task(task_id)
    return decode_result(found) if found else None


async def record(cell: Cell, task_id: str) -> TaskRecord:
    if found := await _records(cell, [task_id]):
        return found[0]
    raise no_task(task_id)


async def tasks(cell: Cell, trace_id: str | None, limit: int) -> list[TaskRecord]:
    name = cell.keys.name("tasks", trace_id) if trace_id else cell.keys.name("roots")
    ids = cast(list[bytes], await cell.client.call("LRANGE", name, 0, limit - 1)) if limit > 0 else []
    return await _records(cell, [task.decode() for task in ids])


async def _records(cell: Cell, task_ids: Sequence[str]) -> list[TaskRecord]:
    """Those that are still kept."""
    rows = await cell.client.read_many([("HMGET", cell.keys.name("task", task), *FIELDS) for task in task_ids])
    return [_record(task, row) for task, row in zip(task_ids, rows, strict=True) if row[0] is not None]


def _record(task_id: str, row: Sequence[bytes | None]) -> TaskRecord:
    text = {name: value.decode() for name, value in zip(FIELDS, row, strict=True) if value is not None}
    return TaskRecord(
        task_id=task_id,
        trace_id=text["trace"],
        pool=text["pool"],
        agent=text["agent"],
        state=State(text["state"]),
        attempt=int(text["attempt"]),
        accepted_at_ms=int(text["accepted"]),
        expires_at_ms=int(text["expires"]),
        parent_task_id=text.get("parent"),
        started_at_ms=int(text["started"]) if "started" in text else None,
        finished_at_ms=int(text["finished"]) if "finished" in text else None,
        worker=text.get("worker", ""),
        lost_leases=int(text.get("lost", 0)),
        intent=text.get("intent", ""),
        batch_id=text.get("batch", ""),
    )


async def announce(cell: Cell, card: WorkerCard, *, ttl_s: float) -> None:
    await cell.run(
        "announce", repeatable=True, worker=card.worker, card=card.model_dump_json(), ttl_ms=int(ttl_s * 1000)
    )


async def workers(cell: Cell) -> list[WorkerCard]:
    cards = cast(list[bytes], await cell.run("announce", repeatable=True))
    return sorted((WorkerCard.model_validate_json(card) for card in cards), key=lambda card: card.worker)


async def stats(cell: Cell, pools: Sequence[str]) -> list[PoolStats]:
    rows = await cell.run("stats", repeatable=True, pools=list(pools))
    return [
        PoolStats(pool, ready, running, age_ms / 1000)
        for pool, (ready, running, age_ms) in zip(pools, rows, strict=True)
    ]


async def counters(cell: Cell) -> dict[str, int]:
    found = await cell.client.call("HGETALL", cell.keys.name("counters"))
    return {name.decode(): int(value) for name, value in zip(found[::2], found[1::2], strict=True)}


async def now_ms(cell: Cell) -> int:
    seconds, micros = await cell.client.call("TIME")
    return int(seconds) * 1000 + int(micros) // 1000
