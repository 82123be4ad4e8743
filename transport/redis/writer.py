"""Group commit: what many tasks write while one round trip is under way goes out together in the next."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

from envelope.lifecycle import State

from ..base import Lease, Prompt, Saved, Wait
from ..errors import TransportError, Unreachable
from ..money import Ledger
from .cell import Cell
from .faults import memory_full
from .queue import Operation, fenced, operation, write

# Few enough that the server works on one batch while the worker prepares the next (a quarter of 200 slots), and that no
# script holds the server for more than a millisecond; many enough that round trips do not count. Of 32, 48, 64 and 100,
# here and in a claim, this drained fastest with one worker and with two (`benchmarks/queue.py`, 9 runs in turn).
MAX_OPERATIONS = 48
# Bounds one request to the server; a single message is at most 1 MiB.
MAX_BYTES = 4 * 1024 * 1024

# What an outcome begins with when it is no success.
FENCED, FAILED, FULL = 0, -1, -2
# About 20 s in all. The server makes room meanwhile: other tasks end, and their events may go.
FULL_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, *8 * (2.0,))
# How many values a trace's and its tenant's money take, with the outcome's own first one.
LEDGER = 7

Letter = tuple[str, str]  # code and reason
Last = tuple[bytes, int]  # a message, and micro-dollars
Waiting = tuple[Operation, int, "asyncio.Future[list[Any]]"]  # with its size in bytes


class Writer:
    """Writes under leases, in the order in which they were asked for; each caller awaits its own outcome.

    Each batch has a number: one whose answer was lost is sent again, and the server does it once.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._name = f"writer-{secrets.token_hex(8)}"
        self._numbers = count(1)
        self._waiting: deque[Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def emit(
        self, lease: Lease, message: bytes, charge_microusd: int, release_microusd: int, gets_on: bool
    ) -> Ledger:
        amounts = [charge_microusd, release_microusd, gets_on] if charge_microusd or release_microusd or gets_on else 0
        return _ledger(await self._write("emit", lease, message, amounts))

    async def reserve(self, lease: Lease, amount_microusd: int) -> Ledger | None:
        outcome = await self._write("reserve", lease, b"", amount_microusd)
        return _ledger(outcome) if len(outcome) > 1 else None

    async def checkpoint(
        self, lease: Lease, session: tuple[str, int], message: bytes, charge_microusd: int, release_microusd: int
    ) -> Saved:
        """`session`: its blob, and how many prompts it holds."""
        more = [*session, charge_microusd, release_microusd]
        outcome = await self._write("checkpoint", lease, message, more)
        return Saved(_ledger(outcome[:LEDGER]), tuple(_prompts(outcome[LEDGER:])))

    async def inbox(self, lease: Lease) -> list[Prompt]:
        return _prompts((await self._write("inbox", lease))[1:])

    async def park(self, lease: Lease, wait: Wait) -> bool:
        names = {"children": sorted(wait.children), "asks": sorted(wait.asks), "first": wait.first}
        until = {} if wait.until_ms is None else {"until": wait.until_ms}
        return bool((await self._write("park", lease, b"", {**names, **until}))[1])

    async def hold(self, lease: Lease, asks: frozenset[str]) -> None:
        await self._write("hold", lease, b"", sorted(asks))

    async def finish(
        self, lease: Lease, status: State, message: bytes, letter: Letter | None = None, last: Last | None = None
    ) -> bool:
        """`letter`: it is listed as dead. `last`: what is told before the result, and its charge."""
        more = [status, *(last or (b"", 0)), *(letter or ())] if letter or last else status
        return bool((await self._write("finish", lease, message, more))[1])

    async def give_back(self, lease: Lease) -> None:
        await self._write("give_back", lease)

    async def retry(self, lease: Lease, delay_ms: int, reason: str) -> None:
        await self._write("retry", lease, reason, delay_ms)

    async def close(self) -> None:
        if self._sender:
            await self._sender

    async def _write(self, kind: str, lease: Lease, data: bytes | str = b"", more: Any = 0) -> list[Any]:
        pauses_s = iter(FULL_PAUSES_S)
        outcome = await self._outcome(operation(kind, lease, data, more), len(data))
        while outcome[0] == FULL:
            made_room = outcome[1] > 0
            pause_s = 0.0 if made_room else next(pauses_s, None)
            if pause_s is None:
                raise memory_full()
            await asyncio.sleep(pause_s)
            outcome = await self._outcome(operation(kind, lease, data, more), len(data))
        if outcome[0] == FENCED:
            raise fenced(lease)
        if outcome[0] == FAILED:
            raise TransportError(f"the Redis server could not write for {lease.task_id}: {outcome[1].decode()}")
        return outcome

    def _outcome(self, write: Operation, size_bytes: int) -> asyncio.Future[list[Any]]:
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, size_bytes, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        return future

    async def _send_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._send(batch)
        finally:
            self._sender = None

    def _next_batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        size_bytes = 0
        while self._waiting and len(batch) < MAX_OPERATIONS and size_bytes < MAX_BYTES:
            batch.append(self._waiting.popleft())
            size_bytes += batch[-1][1]
        return batch

    async def _send(self, batch: Sequence[Waiting]) -> None:
        once = (self._name, next(self._numbers))
        try:
            outcomes = await write(self._cell, (operation for operation, _, _ in batch), once=once)
        except Exception as error:  # whatever it is, those who wait must hear of it, and the next batch must go out
            _fail(batch, error)
            return
        except BaseException:  # the writer itself is being torn down
            _fail([*batch, *self._waiting], Unreachable("the writer was closed before its write was stored"))
            raise
        for (_, _, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)


def _fail(batch: Sequence[Waiting], error: Exception) -> None:
    for _, _, future in batch:
        if not future.done():
            future.set_exception(error)


def _prompts(prompts: list[Any]) -> list[Prompt]:
    fields = [json.loads(prompt) for prompt in prompts]  # what a newer sender adds is not for us
    return [Prompt(prompt["text"], prompt["by"], prompt["at_ms"]) for prompt in fields]


def _ledger(outcome: list[Any]) -> Ledger:
    _, spent, cap, reserved, spent_by_all, cap_of_all, reserved_by_all = outcome
    tenant = Ledger(spent_by_all, cap_of_all, reserved_by_all) if cap_of_all >= 0 else None
    return Ledger(spent, cap if cap >= 0 else None, reserved, tenant)
