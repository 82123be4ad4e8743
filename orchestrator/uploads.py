"""A client for a caller from outside: what it stores is counted before it is stored, by whichever route it comes.

The count stands below the routes, where blobs are put and tasks are handed over: a route that is added later is counted
without a word about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol, TypeVar

from envelope.asks import AskTerms
from envelope.messages import TaskRequest
from transport.base import Transport
from transport.blobs.base import Blobs
from transport.blobs.owners import acting_for

# Counts so many bytes; what is over a limit is refused by an exception.
Charge = Callable[[int], Awaitable[None]]


class _Client(Protocol):
    transport: Transport
    charge: Charge | None


C = TypeVar("C", bound=_Client)


def counting(client: C, charge: Charge, *, tenant: str, reads: str) -> C:
    """The same client, which shares all that it stands on. It stores blobs for `tenant`, and reads those of `reads`."""
    twin = copy(client)
    twin.transport = copy(client.transport)
    twin.transport.blobs = CountedBlobs(client.transport.blobs, charge, tenant, reads)
    twin.charge = charge
    return twin


async def taken_from_outside(requests: Sequence[TaskRequest], charge: Charge | None) -> Sequence[TaskRequest]:
    """Tasks, which are kept as they were handed over: counted, and without what people have allowed for good on their
    own machines, which a task that goes on with a session of theirs would have."""
    if charge is None:
        return requests
    requests = [_without_approvals(request) for request in requests]
    await charge(sum(map(_size_of, requests)))
    return requests


def _without_approvals(request: TaskRequest) -> TaskRequest:
    asks = request.asks and AskTerms(timeout_ms=request.asks.timeout_ms)
    return request if asks == request.asks else request.model_copy(update={"asks": asks})


def _size_of(request: TaskRequest) -> int:
    try:
        return len(request.model_dump_json())
    except ValueError:  # half a character, say: no envelope holds it, and so it is refused and not kept
        return 0


@dataclass(frozen=True, slots=True)
class CountedBlobs:
    """What was stored before counts as well: another price would tell what others have."""

    blobs: Blobs
    charge: Charge
    tenant: str
    reads: str

    async def put(self, content: bytes) -> str:
        await self.charge(len(content))
        with acting_for(self.tenant):
            return await self.blobs.put(content)

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        await self.charge(sum(map(len, contents)))
        with acting_for(self.tenant):
            return await self.blobs.put_all(contents)

    async def get(self, ref: str) -> bytes:
        with acting_for(self.reads):
            return await self.blobs.get(ref)

    async def collect(self, *, now_ms: int) -> int:
        return await self.blobs.collect(now_ms=now_ms)
