"""How many tasks of one trace may be under way: a model that starts subagents without end is told to wait."""

from __future__ import annotations

import asyncio

from envelope.lifecycle import TERMINAL
from transport.base import Transport

from ..tools.errors import ToolError

# More than any fan-out that one model keeps track of.
MAX_IN_FLIGHT = 64
# A trace's tasks are counted from its beginning; one with more has ended most of them.
MAX_COUNTED = 5000


class Room:
    """Counts anew only when what was counted and started since would be too much: a fan-out of forty reads once."""

    def __init__(self, transport: Transport, trace_id: str, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._transport = transport
        self._trace_id = trace_id
        self._max = max_in_flight
        self._taken = max_in_flight  # nobody has counted yet
        self._counting = asyncio.Lock()

    async def take(self) -> None:
        """One more subagent; `ToolError` when there are enough."""
        async with self._counting:
            if self._taken >= self._max:
                self._taken = await self._under_way()
            if self._taken >= self._max:
                raise ToolError(
                    f"{self._taken} subagents of this trace are under way, and no more than {self._max} may be; start"
                    " this one when some have answered, or do the work yourself"
                )
            self._taken += 1

    async def _under_way(self) -> int:
        tasks = await self._transport.tasks(trace_id=self._trace_id, limit=MAX_COUNTED)
        return sum(task.parent_task_id is not None and task.state not in TERMINAL for task in tasks)
