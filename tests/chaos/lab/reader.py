"""The server's contents in the end, read past the transport: the whole of each stream, each record, each ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from envelope.codec import decode
from envelope.events import StateChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Transport
from transport.money import Ledger

from .fleet import Fleet, clock_offset_ms
from .history import Entry, History, read_ops
from .users import OPERATOR, lab_users

# More than any run submits.
ALL = 1_000_000


async def read_history(fleet: Fleet) -> History:
    """Everything about the fleet's traces; to be called when its processes have ended."""
    with redis.Redis.from_url(lab_users().url_as(OPERATOR, fleet.url)) as client:
        cells = dict(_traces(client, fleet))
        streams = {trace: tuple(_entries(client, f"{cell}:events:{trace}")) for trace, cell in cells.items()}
        ledgers = {trace: _ledger(client, f"{cell}:trace:{trace}") for trace, cell in cells.items()}
        shortened = [trace for trace, cell in cells.items() if _is_shortened(client, f"{cell}:events:{trace}")]
    transport = await fleet.connect()
    try:
        records = [record for trace in cells for record in await transport.tasks(trace_id=trace, limit=ALL)]
        trimmed = {trace: await _told_of(transport, trace) for trace in shortened}
        offset_ms = await clock_offset_ms(transport)
    finally:
        await transport.close()
    return History(
        ops=read_ops(Path(fleet.histories)),
        streams=streams,
        records={record.task_id: record for record in records},
        ledgers=ledgers,
        trimmed=trimmed,
        offset_ms=offset_ms,
    )


def _traces(client: Any, fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Each trace, and the prefix of the cell's keys in which it lives."""
    for name in client.scan_iter(f"{{muster:{fleet.name}:*}}:events:*", count=1000):
        cell, _, trace = name.decode().rpartition(":events:")
        yield trace, cell


def _entries(client: Any, stream: str) -> Iterator[Entry]:
    for entry_id, fields in client.xrange(stream):
        message = decode(fields[b"m"])
        if isinstance(message, TaskResult):
            state, seq = message.status, -1
        else:
            assert isinstance(message, TaskProgress)
            state, seq = _moved_to(message), message.seq
        yield Entry(
            entry_id.decode(), message.task_id, message.attempt, seq, state, is_result=isinstance(message, TaskResult)
        )


def _is_shortened(client: Any, stream: str) -> bool:
    """Redis 6.2 does not count what was added; a full server drops all entries of a trace."""
    told = client.xinfo_stream(stream)
    return told["entries-added"] > told["length"] if "entries-added" in told else not told["length"]


async def _told_of(transport: Transport, trace_id: str) -> frozenset[str]:
    """The tasks whose result a reader of the trace is given."""
    entries = [entry async for entry in transport.follow(trace_id, wait=False)]
    return frozenset(entry.message.task_id for entry in entries if isinstance(entry.message, TaskResult))


def _moved_to(progress: TaskProgress) -> State | None:
    return next((event.state for event in progress.events if isinstance(event, StateChanged)), None)


def _ledger(client: Any, name: str) -> Ledger:
    spent, cap, reserved = client.hmget(name, "spent", "cap", "reserved")
    return Ledger(int(spent or 0), None if cap is None else int(cap), int(reserved or 0))
