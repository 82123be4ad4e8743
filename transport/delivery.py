"""One claimed task on its way through a handler: what the handler gets, what it may answer, what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from envelope.errors import CODES, ErrorCode
from envelope.messages import ErrorInfo, TaskProgress, TaskRequest, TaskResult

from .base import Claim, Lease, Wait


class StopReason(StrEnum):
    """Why a handler's task was cancelled from outside."""

    CANCELLED = "cancelled"  # somebody asked; end as cancelled
    EXPIRED = "expired"  # the deadline; end as expired
    LOST = "lost"  # the lease is another's now: clean up, write nothing
    DRAIN = "drain"  # the worker shuts down: clean up, the task is given back


@dataclass(slots=True)
class Delivery:
    """One claimed task on its way through a handler.

    When the work must stop, `stop_reason` (and `stop_detail`) are set and the handler's asyncio task is cancelled: it
    cleans up and, for CANCELLED and EXPIRED, may return its own result with what it has; if it raises CancelledError
    instead, the consumer finishes the task for it.
    """

    claim: Claim
    request: TaskRequest
    stop_reason: StopReason | None = None
    stop_detail: str = ""
    task: asyncio.Task[Any] | None = field(default=None, repr=False)  # set while the handler runs

    def stop(self, reason: StopReason, detail: str = "") -> None:
        """Tell the handler; the first reason stands."""
        if self.stop_reason is None and self.task is not None:
            self.stop_reason, self.stop_detail = reason, detail
            self.task.cancel()


@dataclass(frozen=True, slots=True)
class Pause:
    """The handler has checkpointed and let go of all that it held; the task waits, and another attempt goes on."""

    wait: Wait


@dataclass(frozen=True, slots=True)
class Ending:
    """The result, and what was not told before it: both are stored in one step, and what it cost is charged."""

    result: TaskResult
    progress: TaskProgress | None
    charge_microusd: int = 0


@dataclass(frozen=True, slots=True)
class Again:
    """What the task needs is not there now (an engine, a provider): another attempt, after a while, may find it.

    After `MAX_RETRIES` of them the task ends with `code`.
    """

    code: ErrorCode
    reason: str


Outcome = TaskResult | Ending | Pause | Again
Handler = Callable[[Delivery], Awaitable[Outcome]]

# Together a minute at most, half of that in the mean: what is not back by then is not back soon, and somebody should
# hear of it.
MAX_RETRIES = 6
RETRY_BASE_MS = 1_000


def retry_delay_ms(retries: int, *, chance: float) -> int:
    """Exponential, with full jitter: tasks that failed together do not come back together. `chance` is in [0, 1).

    (After "Exponential Backoff And Jitter", M. Brooker, AWS architecture blog, 2015.)

    >>> retry_delay_ms(0, chance=0.5), retry_delay_ms(3, chance=0.5)
    (500, 4000)
    """
    return max(1, int((RETRY_BASE_MS << min(retries, MAX_RETRIES)) * chance))


class What(StrEnum):
    CLAIMED = "claimed"
    FINISHED = "finished"
    LOST = "lost"
    GIVEN_BACK = "given_back"
    PARKED = "parked"
    RETRIED = "retried"


@dataclass(frozen=True, slots=True)
class ConsumerEvent:
    """Something that metrics may count. `result` is there when it was stored."""

    what: What
    claim: Claim
    request: TaskRequest | None = None  # None: it could not be decoded, or is not yet
    result: TaskResult | None = None


def failed(lease: Lease, code: ErrorCode, text: str, *, hint: str = "") -> TaskResult:
    """A result that holds nothing but why there is none."""
    return TaskResult(
        trace_id=lease.trace_id,
        task_id=lease.task_id,
        attempt=lease.attempt,
        status=CODES[code].state,
        errors=(ErrorInfo.of(code, text, hint),),
    )


def ending(delivery: Delivery) -> TaskResult | None:
    """How a delivery ends whose handler just stopped when it was told to; None: not at all, here."""
    match delivery.stop_reason:
        case StopReason.CANCELLED:
            text = delivery.stop_detail or "the task was cancelled"
            return failed(delivery.claim.lease, ErrorCode.CANCELLED, text)
        case StopReason.EXPIRED:
            text = "the task did not end before its deadline"
            return failed(delivery.claim.lease, ErrorCode.DEADLINE, text)
        case _:
            return None
