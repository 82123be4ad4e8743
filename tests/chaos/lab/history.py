"""What happened in a run: what each process asked for and was told, and what the server holds in the end.

A process writes a line before it asks and a line when it knows: of one that is killed in between, the outcome is
unknown. Moments are CLOCK_MONOTONIC's, one clock for all processes of a machine, which no fake clock moves.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from envelope.lifecycle import State
from transport.base import TaskRecord
from transport.money import Ledger


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"  # for certain: nothing was changed
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Op:
    """One invocation by one process and its outcome. `asked` and `answer` depend on `what` (see `recorded.py`)."""

    process: str
    what: str
    outcome: Outcome
    began_ns: int
    ended_ns: int | None = None
    task_id: str = ""
    attempt: int = 0
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answer: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a trace's stream. `state`: of a move that the queue tells, or of the result."""

    id: str
    task_id: str
    attempt: int
    seq: int = -1  # the queue's own entries; a worker's count from 0
    state: State | None = None
    is_result: bool = False

    @property
    def at_ms(self) -> int:
        """The server's time: a stream's ids begin with it."""
        return int(self.id.split("-")[0])


@dataclass(frozen=True, slots=True)
class History:
    ops: tuple[Op, ...]
    streams: Mapping[str, tuple[Entry, ...]]  # by trace, whole and in order
    records: Mapping[str, TaskRecord]  # by task
    ledgers: Mapping[str, Ledger] = field(default_factory=dict[str, Ledger])  # by trace
    # the traces whose events the server dropped to make room: the tasks of each whose result a reader is still given
    trimmed: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    # what to add to CLOCK_MONOTONIC to get the server's time
    offset_ms: float = 0.0

    def of(self, *what: str) -> list[Op]:
        return [op for op in self.ops if op.what in what]

    def server_ms(self, monotonic_ns: int) -> float:
        return monotonic_ns / 1e6 + self.offset_ms

    def tasks(self) -> dict[str, list[Entry]]:
        """The entries of each task, in the order of its trace's stream."""
        found: dict[str, list[Entry]] = {}
        for stream in self.streams.values():
            for entry in stream:
                found.setdefault(entry.task_id, []).append(entry)
        return found

    def starts(self) -> dict[tuple[str, int], Entry]:
        """The queue's word that an attempt runs, by task and attempt."""
        entries = itertools.chain.from_iterable(self.streams.values())
        return {(e.task_id, e.attempt): e for e in entries if e.state is State.RUNNING and not e.is_result}


class Recorder:
    """Appends to the process's own file. Each line is one write to the kernel: SIGKILL loses none that was made."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._file = os.open(folder / f"{process}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._numbers = itertools.count()

    def asks(self, what: str, *, task_id: str = "", attempt: int = 0, **asked: Any) -> int:
        number = next(self._numbers)
        self._write(n=number, what=what, task_id=task_id, attempt=attempt, asked=asked, began_ns=time.monotonic_ns())
        return number

    def hears(self, number: int, outcome: Outcome, **answer: Any) -> None:
        self._write(n=number, outcome=outcome, answer=answer, ended_ns=time.monotonic_ns())

    def _write(self, **line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_ops(folder: Path) -> tuple[Op, ...]:
    """Every process's operations, in the order in which they began."""
    ops = (op for path in folder.glob("*.jsonl") for op in _ops_of(path.stem, _whole_lines(path.read_text())))
    return tuple(sorted(ops, key=lambda op: op.began_ns))


def _whole_lines(text: str) -> list[str]:
    """Between two pages of the file the kernel looks for a SIGKILL: what was cut off there was not written."""
    return text[: text.rfind("\n") + 1].splitlines()


def _ops_of(process: str, lines: Iterable[str]) -> Iterable[Op]:
    calls: dict[int, dict[str, Any]] = {}
    for text in lines:
        line = json.loads(text)
        calls.setdefault(line.pop("n"), {"outcome": Outcome.UNKNOWN}).update(line)
    for call in calls.values():
        yield Op(process=process, **{**call, "outcome": Outcome(call["outcome"])})
