"""What a task of a chaos run does, written by the submitter into the request's `params`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from envelope.budget import Budget
from envelope.ids import content_key, new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskRequest

from .fleet import POOL


class Habit(StrEnum):
    """How a task behaves beside its turns."""

    PLAIN = "plain"
    DEADLY = "deadly"  # takes its worker with it
    STUBBORN = "stubborn"  # blocks a thread and does not listen
    BLOCKING = "blocking"  # blocks the worker's event loop
    ZOMBIE = "zombie"  # the first attempt waits to be lost, then tries to write all the same
    ECHOING = "echoing"  # makes every write twice that may be made twice
    FORSAKEN = "forsaken"  # the first attempt waits to be lost; later ones end at once


@dataclass(frozen=True, slots=True)
class Job:
    turns_ms: tuple[int, ...] = ()  # how long each turn works
    cost_microusd: int = 0  # of each turn: set aside before, charged after
    children: tuple[Mapping[str, Any], ...] = ()  # jobs, as plain values; submitted before the last turn
    parks: bool = False  # waits for its children without a slot
    habit: Habit = Habit.PLAIN
    hold_ms: int = 0  # how long a stubborn or blocking task holds

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        known = {**params, "turns_ms": tuple(params["turns_ms"]), "habit": Habit(params["habit"])}
        return cls(**{**known, "children": tuple(params["children"])})


@dataclass(frozen=True, slots=True)
class Memory:
    """What a checkpoint holds."""

    turn: int = 0
    children: list[str] = field(default_factory=list[str])


def request(job: Job, *, key: str = "", created_at_ms: int | None = None, **fields: Any) -> TaskRequest:
    """With a key, the same key gives the same task."""
    defaults: dict[str, Any] = {
        "task_id": new_task_id(),
        "trace_id": new_trace_id(key=f"default:{key}" if key else ""),
        "sender": "chaos",
        "recipient": POOL,
        "agent": "chaos",
        "input": TaskInput(params=job.plain()),
        "deadline_ms": 10 * 60_000,
        "idempotency_key": key,
        "created_at_ms": time.time_ns() // 1_000_000 if created_at_ms is None else created_at_ms,
        "budget": Budget(),
    }
    return TaskRequest(**{**defaults, **fields})


def child_of(parent: TaskRequest, number: int, job: Job, *, created_at_ms: int) -> TaskRequest:
    """The same child, whichever attempt of its parent submits it."""
    return request(
        job,
        key=content_key(parent.task_id, str(number)),
        created_at_ms=created_at_ms,
        trace_id=parent.trace_id,
        parent_task_id=parent.task_id,
        deadline_ms=parent.deadline_ms,
    )
