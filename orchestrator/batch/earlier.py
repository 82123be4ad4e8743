"""After a restart: what an attempt before this one let tasks spend that this one has not come to again.

A later attempt meets the first task of each shard at once; a second try, a later step or an answer to a conflict it
meets when it gets there; those of repositories that are concluded it does not meet at all. Until then that money is
not to be given away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from envelope.lifecycle import TERMINAL
from transport.base import TaskRecord
from transport.errors import NotFound

from ..driver import Driver

AT_ONCE = 100


@dataclass(slots=True)
class Earlier:
    """`tasks`: by the content keys that lead to them; None until somebody asks."""

    driver: Driver
    tasks: dict[str, TaskRecord] | None = None
    _spent: dict[str, int] = field(default_factory=dict[str, int])  # by tasks that have ended: it stays as it is

    async def held_microusd(self) -> int:
        """What those that live may spend, and those that have ended have spent."""
        unmet = list((await self._unmet()).values())
        groups = [unmet[start : start + AT_ONCE] for start in range(0, len(unmet), AT_ONCE)]
        return sum([sum(await asyncio.gather(*map(self._held, some))) for some in groups])

    async def take(self, key: str) -> int | None:
        """The cap of the task under this key, which from now on is its seat's; None where there is none."""
        task = (await self._unmet()).get(key)
        if task is None or self.tasks is None:
            return None
        del self.tasks[key]
        with suppress(NotFound):
            return (await self.driver.transport.ledger(task.trace_id)).cap_microusd
        return None

    async def _unmet(self) -> dict[str, TaskRecord]:
        if self.tasks is None:
            self.tasks = await self._found() if self.driver.delivery.claim.lease.attempt > 1 else {}
        return {key: task for key, task in self.tasks.items() if task.trace_id not in self.driver.met}

    async def _held(self, task: TaskRecord) -> int:
        if task.task_id in self._spent:
            return self._spent[task.task_id]
        with suppress(NotFound):  # forgotten, with what it has spent
            ended = (await self.driver.transport.record(task.task_id)).state in TERMINAL
            ledger = await self.driver.transport.ledger(task.trace_id)
            if ended:
                self._spent[task.task_id] = ledger.spent_microusd
            return ledger.spent_microusd if ended or ledger.cap_microusd is None else ledger.cap_microusd
        return 0

    async def _found(self) -> dict[str, TaskRecord]:
        """This batch's roots are among those that were accepted after it."""
        request, since_ms = self.driver.request, self.driver.delivery.claim.accepted_at_ms
        found: dict[str, TaskRecord] = {}
        after, more = "", True
        while more:
            page = await self.driver.transport.roots(tenant=request.tenant, after=after, limit=AT_ONCE)
            ours = [root for root in page.records if root.batch_id == request.task_id]
            found.update(await self._by_key([root for root in ours if root.trace_id not in self.driver.met]))
            after = page.cursor
            is_past = bool(page.records) and all(root.accepted_at_ms < since_ms for root in page.records)
            more = bool(after) and not is_past
        return found

    async def _by_key(self, tasks: Sequence[TaskRecord]) -> dict[str, TaskRecord]:
        keys = await asyncio.gather(*(self._key(task.task_id) for task in tasks))
        return {key: task for key, task in zip(keys, tasks, strict=True) if key}

    async def _key(self, task_id: str) -> str:
        with suppress(NotFound):
            return (await self.driver.transport.request(task_id)).idempotency_key
        return ""
