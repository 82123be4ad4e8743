"""A fleet for something that is known. What is not is said out of the records: to start a fleet takes seconds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from envelope.lifecycle import TERMINAL
from transport.base import TaskRecord

from ..client import Muster
from ..settings import Settings
from .find import find_task
from .fleet import open_fleet, open_records

T = TypeVar("T")


async def looked_up(settings: Settings, find: Callable[[Muster], Awaitable[T]]) -> T:
    """What `find` finds in the records, or raises."""
    async with open_records(settings) as muster:
        return await find(muster)


@asynccontextmanager
async def records_of(settings: Settings, words: str) -> AsyncGenerator[tuple[Muster, TaskRecord]]:
    """The records alone, and the task there that a person named."""
    async with open_records(settings) as muster:
        yield muster, await find_task(muster, words)


@asynccontextmanager
async def fleet_of(settings: Settings, words: str) -> AsyncGenerator[tuple[Muster, TaskRecord]]:
    """A fleet that works, and the task there that a person named."""
    record = await looked_up(settings, lambda muster: find_task(muster, words))
    async with open_fleet(settings) as muster:
        yield muster, record


@asynccontextmanager
async def following(settings: Settings, words: str) -> AsyncGenerator[tuple[Muster, TaskRecord]]:
    """As `fleet_of`; of a task that has ended the records alone, for nothing new happens in it."""
    record = await looked_up(settings, lambda muster: find_task(muster, words))
    async with (open_records if record.state in TERMINAL else open_fleet)(settings) as muster:
        yield muster, record
