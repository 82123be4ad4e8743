"""A client for a caller from outside: what it stores is counted before it is stored, by whichever route it comes.

The count stands below the routes, where blobs are put and tasks are handed over: a route that is added later is counted
without a word about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol, TypeVar

from envelope.messages import TaskRequest
from transport.base import Transport
from transport.blobs.base import Blobs

# Counts so many bytes; what is over a limit is refused by an exception.
Charge = Callable[[int], Awaitable[None]]


class _Client(Protocol):
    transport: Transport
    charge: Charge | None


C = TypeVar("C", bound=_Client)


def counting(client: C, charge: Charge) -> C:
    """The same client, which shares all that it stands on."""
    twin = copy(client)
    twin.transport = copy(client.transport)
    twin.transport.blobs = CountedBlobs(client.transport.blobs, charge)
    twin.charge = charge
    return twin


async def charge_for(requests: Sequence[TaskRequest], charge: Charge | None) -> None:
    """Of tasks, which are kept as they were handed over."""
    if charge is not None:
        await charge(sum(len(request.model_dump_json()) for request in requests))


@dataclass(frozen=True, slots=True)
class CountedBlobs:
    """What was stored before counts as well: another price would tell what others have."""

    blobs: Blobs
    charge: Charge

    async def put(self, content: bytes) -> str:
        await self.charge(len(content))
        return await self.blobs.put(content)

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        await self.charge(sum(map(len, contents)))
        return await self.blobs.put_all(contents)

    async def get(self, ref: str) -> bytes:
        return await self.blobs.get(ref)

    async def collect(self, *, now_ms: int) -> int:
        return await self.blobs.collect(now_ms=now_ms)
