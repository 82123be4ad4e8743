"""What becomes of a delivery when its handler is done with it: stored, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypedDict, TypeVar

from envelope.errors import EnvelopeError, ErrorCode
from envelope.logs import get_logger
from envelope.messages import TaskProgress, TaskRequest, TaskResult

from .base import Claim, Transport, Wait
from .delivery import (
    MAX_RETRIES,
    Again,
    ConsumerEvent,
    Delivery,
    Ending,
    Outcome,
    Pause,
    StopReason,
    What,
    failed,
    retry_delay_ms,
)
from .errors import Fenced, QueueFull, Unreachable

# First pause, and the longest, between tries to reach a lost server.
BACKOFF_S = (0.1, 5.0)

T = TypeVar("T")

_log = get_logger("consumer")


class _Last(TypedDict):
    progress: TaskProgress | None
    charge_microusd: int


@dataclass(frozen=True, slots=True)
class Settling:
    """Each delivery is settled once, and told once."""

    transport: Transport
    on_event: Callable[[ConsumerEvent], None]

    async def settle(self, delivery: Delivery, outcome: Outcome | None) -> None:
        """Tell the transport how an attempt ended. Without an outcome it was stopped: drained, or its lease is lost."""
        claim, request = delivery.claim, delivery.request
        match outcome:
            case TaskResult():
                await self._finish(claim, request, Ending(outcome, None))
            case Ending():
                await self._finish(claim, request, outcome)
            case Pause(wait):
                await self._park(claim, request, wait)
            case Again():
                await self._try_again(claim, request, outcome)
            case None if delivery.stop_reason is StopReason.DRAIN:
                await self._return(claim, request, What.GIVEN_BACK, partial(self.transport.give_back, claim.lease))
            case None:
                self.on_event(ConsumerEvent(What.LOST, claim, request))

    async def refuse(self, claim: Claim, error: EnvelopeError) -> None:
        """Bytes that are no request of this fleet: an operator should hear of them."""
        result = failed(claim.lease, ErrorCode.BAD_INPUT, error.message, hint=error.hint)
        await self._finish(claim, None, Ending(result, None), dead=error.message)

    async def _finish(self, claim: Claim, request: TaskRequest | None, end: Ending, *, dead: str = "") -> None:
        finish, result = self.transport.finish, end.result
        last: _Last = {"progress": end.progress, "charge_microusd": end.charge_microusd}
        try:
            ended = await _until_stored(lambda: finish(claim.lease, result, dead=dead, **last))
        except EnvelopeError as error:
            # the task has run, its result cannot travel
            result = failed(claim.lease, ErrorCode.INTERNAL, error.message, hint=error.hint)
            ended = await _until_stored(lambda: finish(claim.lease, result, **last))
        if ended is True:
            self.on_event(ConsumerEvent(What.FINISHED, claim, request, result))
        else:  # not ended: a prompt came in, and the next attempt hears it
            self._tell(claim, request, What.GIVEN_BACK, ended)

    async def _park(self, claim: Claim, request: TaskRequest, wait: Wait) -> None:
        """What is there already needs no waiting: then the next attempt may begin at once."""
        parked = await _until_stored(partial(self.transport.park, claim.lease, wait))
        if parked is False:
            await self._return(claim, request, What.GIVEN_BACK, partial(self.transport.give_back, claim.lease))
        else:
            self._tell(claim, request, What.PARKED, parked)

    async def _try_again(self, claim: Claim, request: TaskRequest, again: Again) -> None:
        if claim.retries >= MAX_RETRIES:
            await self._finish(claim, request, Ending(failed(claim.lease, again.code, again.reason), None))
            return
        delay_ms = retry_delay_ms(claim.retries, chance=random.random())  # noqa: S311  jitter is no secret
        retry = partial(self.transport.retry, claim.lease, delay_ms=delay_ms, reason=again.reason)
        await self._return(claim, request, What.RETRIED, retry)

    async def _return(
        self, claim: Claim, request: TaskRequest, what: What, write: Callable[[], Awaitable[None]]
    ) -> None:
        self._tell(claim, request, what, await _until_stored(write))

    def _tell(self, claim: Claim, request: TaskRequest | None, what: What, outcome: object) -> None:
        self.on_event(ConsumerEvent(What.LOST if outcome is Lost.LOST else what, claim, request))


class Lost(Enum):
    LOST = "the task is another's now"


async def _until_stored(write: Callable[[], Awaitable[T]]) -> T | Lost:
    """Try until the server took it, and return what it said; or until it said that the lease is gone."""
    pause_s, longest_s = BACKOFF_S
    while True:
        try:
            return await write()
        except Fenced:
            return Lost.LOST
        except (Unreachable, QueueFull) as error:
            _log.warning("write_failed", error=error.message, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, longest_s)
