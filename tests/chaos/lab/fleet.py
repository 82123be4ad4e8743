"""All that a program must know to take part in a fleet, as a value that travels to it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from transport import keyring
from transport.base import Transport
from transport.limits import Limits
from transport.redis import connect_redis

from .history import Recorder
from .recorded import Recorded
from .users import lab_users

POOL = "general"
# A lost worker's tasks wait for this long: short, so that a minute holds many lives of a task.
LEASE_MS = 2_000
# Runs that kill at random would declare innocents poison; poison has a test of its own.
LIMITS = Limits(lease_ms=LEASE_MS, poison_after=50)


@dataclass(frozen=True, slots=True)
class Fleet:
    url: str
    name: str
    keyring: str
    histories: str  # folder: each process appends to a file of its own
    limits: Limits = LIMITS
    cells: int = 1

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        return cls(**{**plain, "limits": Limits(**plain["limits"])})

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def through(self, url: str) -> Self:
        """The same fleet by another way to its server."""
        return replace(self, url=url)

    def of_workers(self) -> Self:
        """The same fleet as its workers sign in to it."""
        return self.through(lab_users().url_as("worker", self.url))

    async def connect(self) -> Transport:
        keys = keyring.load_or_create(Path(self.keyring))
        return await connect_redis(self.url, keyring=keys, fleet=self.name, limits=self.limits, cells=self.cells)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Transport]:
        transport = await self.connect()
        try:
            yield transport
        finally:
            await transport.close()

    @asynccontextmanager
    async def recorded(self, process: str) -> AsyncIterator[Recorded]:
        """A connection whose use goes into the history."""
        folder = Path(self.histories)
        folder.mkdir(exist_ok=True)
        async with self.connected() as transport:
            yield Recorded(transport, Recorder(folder, process))


# `make_fleet(limits=…, url=…)`: a new fleet for a test, by default on the test's own server
MakeFleet = Callable[..., Fleet]


async def clock_offset_ms(transport: Transport) -> float:
    """What to add to CLOCK_MONOTONIC to get the server's time: of many looks the quickest, which is the most exact."""
    looks: list[tuple[float, float]] = []
    for _ in range(20):
        before = time.monotonic_ns() / 1e6
        now_ms = await transport.now_ms()
        after = time.monotonic_ns() / 1e6
        looks.append((after - before, now_ms - (before + after) / 2))
    return min(looks)[1]
