"""A client for a caller from outside: what it stores is counted before it is stored, by whichever route it comes.

The count stands below the routes, where blobs are put and tasks are handed over: a route that is added later is counted
without a word about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from envelope.asks import AskTerms
from envelope.codec import MAX_MESSAGE_BYTES, encode
from envelope.errors import DecodeError
from envelope.messages import TaskRequest
from transport.base import Transport
from transport.blobs.base import Blobs
from transport.blobs.owners import acting_for
from transport.bounds import stored_bytes, words

from .errors import BadInput

MIB = 1024 * 1024
# Of tasks that one request has made at once. Each may have what any task takes (admission counts 24 KiB for it); what
# is beyond that stands in the queue's memory as often as there are tasks, before any of them has cost a cent.
LIGHT_BYTES = 4 * 1024
MAX_HEAVY_BYTES = 32 * MIB

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


async def counted_first(blobs: Blobs, size_bytes: int) -> Blobs:
    """The store for what has this size, counted already: what is refused need not come first."""
    if not isinstance(blobs, CountedBlobs):
        return blobs
    await blobs.charge(size_bytes)
    return replace(blobs, charge=_counted)


async def _counted(_: int) -> None:
    pass


async def taken_from_outside(requests: Sequence[TaskRequest], charge: Charge | None) -> Sequence[TaskRequest]:
    """Tasks, which are kept as they were handed over: counted, and without what people have allowed for good on their
    own machines, which a task that goes on with a session of theirs would have."""
    if charge is None:
        return requests
    requests = [_without_approvals(request) for request in requests]
    await charge(sum(map(size_of, requests)))
    return requests


async def count_words(text: str, charge: Charge | None) -> None:
    """What somebody says to a session or to an ask, as it will be stored. `Refused` for what never will be. No words (a
    mere yes or no) are never refused for what was stored before."""
    if charge is not None and text:
        await charge(stored_bytes(words("text", text)))


def _without_approvals(request: TaskRequest) -> TaskRequest:
    asks = request.asks and AskTerms(timeout_ms=request.asks.timeout_ms)
    return request if asks == request.asks else request.model_copy(update={"asks": asks})


def size_of(request: TaskRequest) -> int:
    """Bytes, as it is stored; 0 of what no envelope holds (half a character, say), for it is refused and not kept."""
    try:
        return len(encode(request))
    except DecodeError:
        return 0


@dataclass(slots=True)
class Weighed:
    """What the many tasks of one request weigh together: a fan-out's, a batch's, a goal's."""

    heavy_bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """A task of this size; `BadInput` where they are too much together."""
        self.add_heavy(max(0, size_bytes - LIGHT_BYTES))

    def add_task(self, request: TaskRequest) -> None:
        self.add(size_of(request) or MAX_MESSAGE_BYTES)  # what cannot travel is held all the same

    def add_heavy(self, heavy_bytes: int) -> None:
        if self.heavy_bytes + heavy_bytes > MAX_HEAVY_BYTES:
            most = f"{LIGHT_BYTES // 1024} KiB for each task and {MAX_HEAVY_BYTES // MIB} MiB more in all"
            hint = "have each prompt name files, not hold what is in them; or do it in several parts"
            raise BadInput(f"all its tasks together would be larger than {most}", hint=hint)
        self.heavy_bytes += heavy_bytes


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
