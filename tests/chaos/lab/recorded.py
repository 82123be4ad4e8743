"""A transport that writes into the history what is asked of it: whoever uses it, a handler or the consumer itself.

what        asked                              answer
submit      keys                               task_ids, in the order of the keys
spawn       keys (children, under a lease)     task_ids
claim       pool                               claims: [{task_id, attempt, checkpoint}]
emit        seq, charge_microusd               ledger
reserve     amount_microusd                    ledger, or None when the cap does not allow it
checkpoint  blob
park        children                           parked
finish      status                             ended
give_back, retry, cancel
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from envelope.messages import TaskProgress, TaskRequest, TaskResult
from transport.base import Claim, Handle, Lease, Saved, Transport, Wait
from transport.errors import Fenced, NotFound, Refused
from transport.money import Ledger

from .history import Outcome, Recorder


class Recorded:
    """Everything that is not recorded goes straight through."""

    def __init__(self, transport: Transport, recorder: Recorder) -> None:
        self._transport = transport
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def note(self, what: str, *, task_id: str, **asked: Any) -> None:
        """Something that was learnt, and needs no answer."""
        self._recorder.hears(self._recorder.asks(what, task_id=task_id, **asked), Outcome.OK)

    async def submit(self, requests: Sequence[TaskRequest], *, under: Lease | None = None) -> list[Handle]:
        keys = [request.idempotency_key for request in requests]
        if under is None:
            call = self._transport.submit(requests)
            return await self._record(call, _handles, "submit", keys=keys)
        call = self._transport.submit(requests, under=under)
        return await self._record(call, _handles, "spawn", **_ids(under), keys=keys)

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        return await self._record(self._transport.cancel(task_id, by=by, reason=reason), _nothing, "cancel")

    async def claim(
        self, pool: str, worker: str, *, slots: int, wait_s: float, but_of: Sequence[str] = ()
    ) -> list[Claim]:
        call = self._transport.claim(pool, worker, slots=slots, wait_s=wait_s, but_of=but_of)
        return await self._record(call, _claims, "claim", pool=pool)

    async def emit(self, lease: Lease, progress: TaskProgress, *, charge_microusd: int = 0, **more: int) -> Ledger:
        call = self._transport.emit(lease, progress, charge_microusd=charge_microusd, **more)
        return await self._record(
            call, _ledger, "emit", **_ids(lease), seq=progress.seq, charge_microusd=charge_microusd
        )

    async def reserve(self, lease: Lease, amount_microusd: int) -> Ledger | None:
        call = self._transport.reserve(lease, amount_microusd)
        return await self._record(call, _ledger, "reserve", **_ids(lease), amount_microusd=amount_microusd)

    async def checkpoint(self, lease: Lease, blob: str, *, heard: int = 0) -> Saved:
        call = self._transport.checkpoint(lease, blob, heard=heard)
        return await self._record(call, _nothing, "checkpoint", **_ids(lease), blob=blob)

    async def park(self, lease: Lease, wait: Wait) -> bool:
        call = self._transport.park(lease, wait)
        return await self._record(call, _named("parked"), "park", **_ids(lease), children=sorted(wait.children))

    async def finish(self, lease: Lease, result: TaskResult, *, dead: str = "", **last: Any) -> bool:
        call = self._transport.finish(lease, result, dead=dead, **last)
        return await self._record(call, _named("ended"), "finish", **_ids(lease), status=result.status)

    async def give_back(self, lease: Lease) -> None:
        await self._record(self._transport.give_back(lease), _nothing, "give_back", **_ids(lease))

    async def retry(self, lease: Lease, *, delay_ms: int, reason: str) -> None:
        call = self._transport.retry(lease, delay_ms=delay_ms, reason=reason)
        await self._record(call, _nothing, "retry", **_ids(lease))

    async def _record(self, call: Awaitable[Any], answer: Callable[[Any], dict[str, Any]], what: str, **op: Any) -> Any:
        number = self._recorder.asks(what, **op)
        try:
            found = await call
        except (Fenced, Refused, NotFound) as error:
            self._recorder.hears(number, Outcome.FAILED, error=type(error).__name__)
            raise
        except BaseException as error:  # cancelled, cut off: whether the server did it, nobody here knows
            self._recorder.hears(number, Outcome.UNKNOWN, error=type(error).__name__)
            raise
        self._recorder.hears(number, Outcome.OK, **answer(found))
        return found


def _ids(lease: Lease) -> dict[str, Any]:
    return {"task_id": lease.task_id, "attempt": lease.attempt}


def _nothing(_found: Any) -> dict[str, Any]:
    return {}


def _named(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda found: {name: found}


def _handles(handles: Sequence[Handle]) -> dict[str, Any]:
    return {"task_ids": [handle.task_id for handle in handles]}


def _claims(claims: Sequence[Claim]) -> dict[str, Any]:
    return {
        "claims": [
            {"task_id": claim.lease.task_id, "attempt": claim.lease.attempt, "checkpoint": claim.checkpoint}
            for claim in claims
        ]
    }


def _ledger(ledger: Ledger | None) -> dict[str, Any]:
    if ledger is None:
        return {"ledger": None}
    return {
        "ledger": {
            "spent": ledger.spent_microusd,
            "reserved": ledger.reserved_microusd,
            "cap": ledger.cap_microusd,
        }
    }
