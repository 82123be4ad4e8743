"""Records of one cell: tasks, pools, workers, counters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from envelope.agents import WorkerCard
from envelope.codec import decode_request, decode_result
from envelope.errors import BadSignature
from envelope.ids import digest_of
from envelope.lifecycle import State
from envelope.logs import get_logger
from envelope.messages import TaskRequest, TaskResult
from envelope.signature import Keyring

from ..base import PoolStats, TaskRecord
from ..errors import no_task
from ..listing import Place
from .cell import Cell

_log = get_logger("records")
_CARD = "muster worker card\n"  # nothing else that is signed begins so

# Stands among what a task waits for where the first of it is enough (see `life.lua`).
FIRST = b"*"
ROWS_AT_ONCE = 1_000  # where spoilt ones are passed over
FIELDS = (
    "trace", "pool", "agent", "state", "attempt", "accepted", "expires", "parent", "started", "finished", "worker",
    "lost", "retries", "intent", "batch", "session", "checkpoint", "cancelled_by", "cancel", "flow", "spent",
    "reserved", "holds", "was", "background",
)  # fmt: skip


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
    if found := await records_of(cell, [task_id]):
        return found[0]
    raise no_task(task_id)


async def tasks(cell: Cell, trace_id: str, limit: int) -> list[TaskRecord]:
    name = cell.keys.name("tasks", trace_id)
    ids = cast(list[bytes], await cell.client.call("LRANGE", name, 0, limit - 1)) if limit > 0 else []
    return await records_of(cell, [_text(task) for task in ids])


async def places(
    cell: Cell, listing: str, tenant: str | None, after: Place | None, limit: int, *, latest_first: bool = True
) -> list[Place]:
    """Of up to `limit` tasks of a sorted set, of a tenant or of all; some may be kept no longer."""
    name = _listing(cell, listing, tenant)
    found: list[Place] = []
    order, ends = (("REV",), ("+inf", "-inf")) if latest_first else ((), ("-inf", "+inf"))
    begin = ends[0]
    if after is not None:  # what has the same millisecond goes by its id
        equal: list[bytes] = await cell.client.call("ZRANGE", name, after[0], after[0], "BYSCORE", *order)
        ids = map(_text, equal)
        found = [(after[0], each) for each in ids if (each < after[1] if latest_first else each > after[1])]
        begin = f"({after[0]}"
    looked_at = 0
    while len(found) < limit:
        count = max(limit - len(found), ROWS_AT_ONCE if looked_at else 0)
        bounds = (begin, ends[1], "BYSCORE", *order, "LIMIT", looked_at, count, "WITHSCORES")
        rows: list[bytes] = await cell.client.call("ZRANGE", name, *bounds)
        pairs = zip(rows[::2], rows[1::2], strict=True)
        found += [(int(score), _text(task)) for task, score in pairs if score.isdigit()]  # else somebody spoilt it
        looked_at += count
        if len(rows) < 2 * count:
            break
    return found[:limit]


async def listed(cell: Cell, listing: str, tenant: str | None) -> int:
    """How many tasks are in a sorted set."""
    return int(await cell.client.call("ZCARD", _listing(cell, listing, tenant)))


def _listing(cell: Cell, listing: str, tenant: str | None) -> str:
    return cell.keys.name(listing, tenant) if tenant else cell.keys.name(listing)


async def records_of(cell: Cell, task_ids: Sequence[str]) -> list[TaskRecord]:
    """Those that are still kept."""
    rows = await cell.client.read_many([("HMGET", cell.keys.name("task", task), *FIELDS) for task in task_ids])
    found = [_readable(task, row) for task, row in zip(task_ids, rows, strict=True) if row[0] is not None]
    records = [record for record in found if record]
    waiting = [record.task_id for record in records if record.state is State.WAITING]
    sets: list[list[bytes]] = await cell.client.read_many(
        [("SMEMBERS", cell.keys.name("awaits", task)) for task in waiting]
    )
    waits = {task: _names(members) for task, members in zip(waiting, sets, strict=True)}
    return [replace(each, waits_for=waits[each.task_id]) if each.task_id in waits else each for each in records]


def _names(awaited: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(sorted(_text(name).removeprefix("ask:") for name in awaited if name != FIRST))


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _number(text: bytes | None) -> int:
    """0 for what somebody has spoilt."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _readable(task_id: str, row: Sequence[bytes | None]) -> TaskRecord | None:
    try:
        return _record(task_id, row)
    except (ValueError, KeyError) as error:  # spoilt: the others are shown
        _log.warning("record_not_readable", task_id=task_id, error=str(error))
        return None


def _state(text: Mapping[str, str]) -> State:
    """One that is closing is shown as it was: its end is told when all below it have ended."""
    if text["state"] == "closing":
        return State(text["was"])
    return State.WAITING if text.get("holds") else State(text["state"])


def _record(task_id: str, row: Sequence[bytes | None]) -> TaskRecord:
    text = {name: value.decode() for name, value in zip(FIELDS, row, strict=True) if value is not None}
    return TaskRecord(
        task_id=task_id,
        trace_id=text["trace"],
        pool=text["pool"],
        agent=text["agent"],
        state=_state(text),
        attempt=int(text["attempt"]),
        accepted_at_ms=int(text["accepted"]),
        expires_at_ms=int(text["expires"]),
        parent_task_id=text.get("parent"),
        started_at_ms=int(text["started"]) if "started" in text else None,
        finished_at_ms=int(text["finished"]) if "finished" in text else None,
        worker=text.get("worker", ""),
        lost_leases=int(text.get("lost", 0)),
        retries=int(text.get("retries", 0)),
        intent=text.get("intent", ""),
        batch_id=text.get("batch", ""),
        session_id=text.get("session", ""),
        checkpoint=text.get("checkpoint"),
        cancelled_by=text.get("cancelled_by", ""),
        cancel_reason=text.get("cancel", ""),
        tenant=text["flow"].partition(":")[0],
        background=tuple(text.get("background", "").split()),
        spent_microusd=int(text.get("spent", 0)),
        reserved_microusd=int(text.get("reserved", 0)),
    )


async def announce(cell: Cell, keyring: Keyring, card: WorkerCard, *, ttl_s: float) -> None:
    """By a card the fleet knows what an agent may do by default, which others sign: so it is signed, until it ends."""
    ttl_ms = int(ttl_s * 1000)
    fields = json.loads(card.model_dump_json(exclude={"is_signed"}))
    until_ms = await now_ms(cell) + ttl_ms
    key_id, mac = keyring.sign(_statement(cell, until_ms, _canonical(fields)))
    signature = {"key_id": key_id, "mac": mac.hex(), "until_ms": until_ms}
    text = json.dumps({**fields, "signature": signature})
    await cell.run("announce", repeatable=True, worker=card.worker, pool=card.pool, card=text, ttl_ms=ttl_ms)


async def announced_pools(cell: Cell) -> frozenset[str]:
    """Pools that a worker has ever announced, or that had a task."""
    return frozenset(_text(name) for name in await cell.client.call("SMEMBERS", cell.keys.name("pools")))


async def workers(cell: Cell, keyring: Keyring) -> list[WorkerCard]:
    """Without a script, as everything that only reads: a role that may run none can see the fleet."""
    now = await now_ms(cell)
    alive: list[bytes] = await cell.client.call("ZRANGEBYSCORE", cell.keys.name("workers"), f"({now}", "+inf")
    cards: list[bytes | None] = await cell.client.call("HMGET", cell.keys.name("cards"), *alive) if alive else []
    found = [_card(cell, keyring, card, now) for card in cards if card]
    return sorted((card for card in found if card), key=lambda card: card.worker)


def _card(cell: Cell, keyring: Keyring, text: bytes, now: int) -> WorkerCard | None:
    """None for one that cannot be read, and for a signed one whose time is over: somebody has kept it."""
    try:
        fields = json.loads(text)
        signature = fields.pop("signature", None)
        body = _canonical(fields)
        card = WorkerCard.model_validate_json(body)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # of a much newer worker, or spoilt
        _log.warning("card_not_readable", error=str(error).splitlines()[0])
        return None
    try:
        until_ms = int(signature["until_ms"])
        keyring.verify(_statement(cell, until_ms, body), signature["key_id"], bytes.fromhex(signature["mac"]))
    except (BadSignature, ValueError, TypeError, KeyError, OverflowError) as error:
        _log.warning("card_not_signed", worker=card.worker, error=str(error))
        seen = card.model_dump(include={"worker", "pool", "slots", "host", "pid", "metrics_port", "version"})
        return WorkerCard(**seen, is_signed=False)
    return card.model_copy(update={"is_signed": True}) if until_ms > now else None


def _canonical(fields: Mapping[str, Any]) -> bytes:
    """The same bytes for the same fields, those that this release does not know included."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _statement(cell: Cell, until_ms: int, body: bytes) -> bytes:
    return f"{_CARD}{digest_of(cell.keys.fleet, str(until_ms), body)}".encode()


# The oldest task of a pool stands at the head of a flow, mostly of one of the next, in one of the next lanes.
LANES_LOOKED_AT = 20
FLOWS_LOOKED_AT = 20


async def stats(cell: Cell, pools: Sequence[str]) -> list[PoolStats]:
    now = await now_ms(cell)
    return [await _stats(cell, pool, now) for pool in pools]


async def _stats(cell: Cell, pool: str, now: int) -> PoolStats:
    keys = cell.keys
    ready, running, parked, lanes = await cell.client.read_many(
        [
            ("HGET", keys.name("pool", pool), "ready"),
            ("ZCARD", keys.name("leases", pool)),
            ("ZCARD", keys.name("parked", pool)),
            ("ZRANGE", keys.name("lanes", pool), 0, LANES_LOOKED_AT - 1),
        ]
    )
    flows = await cell.client.read_many([("ZRANGE", lane, 0, FLOWS_LOOKED_AT - 1) for lane in lanes])
    heads = await cell.client.read_many([("LINDEX", flow, 0) for lane in flows for flow in lane])
    names = [keys.name("task", _text(head)) for head in heads if head]
    waiting = await cell.client.read_many([("HMGET", name, "state", "accepted") for name in names])
    accepted_at = [accepted for state, accepted in waiting if state == b"pending" and accepted and accepted.isdigit()]
    oldest = min(map(int, accepted_at), default=now)
    return PoolStats(pool, _number(ready), int(running), max(0, now - oldest) / 1000, int(parked))


async def counters(cell: Cell) -> dict[str, int]:
    found = await cell.client.call("HGETALL", cell.keys.name("counters"))
    return {_text(name): _number(value) for name, value in zip(found[::2], found[1::2], strict=True)}


async def overdue(cell: Cell, late_ms: int) -> int:
    last = await now_ms(cell) - late_ms
    return int(await cell.client.call("ZCOUNT", cell.keys.name("deadlines"), "-inf", last))


async def now_ms(cell: Cell) -> int:
    seconds, micros = await cell.client.call("TIME")
    return int(seconds) * 1000 + int(micros) // 1000
