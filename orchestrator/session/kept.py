"""Folds that are kept between reads: who asks again for a trace reads only what has happened since."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from transport.base import Transport
from transport.errors import NotFound

from .fold import Session, apply

# A tree of 1,000 tasks takes about 3 MB. What is dropped is folded again when somebody asks.
KEPT_TRACES = 32


@dataclass(slots=True)
class _Kept:
    session: Session
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # two readers would both apply the same entries


class Folds:
    """The traces that were asked for last."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def of(self, trace_id: str) -> Session:
        """The trace as it is now, read-only. `NotFound` when it is not known, or no longer."""
        kept = self._kept.get(trace_id) or await self._begun(trace_id)
        self._kept[trace_id] = kept
        self._kept.move_to_end(trace_id)
        if len(self._kept) > KEPT_TRACES:
            self._kept.popitem(last=False)
        async with kept.reading:
            session = kept.session
            try:
                async for entry in self._transport.follow(trace_id, after=session.cursor(trace_id), wait=False):
                    apply(session, entry)
            except NotFound:
                self._kept.pop(trace_id, None)
                raise
            return session.snapshot()

    async def _begun(self, trace_id: str) -> _Kept:
        roots = await self._transport.tasks(trace_id=trace_id, limit=1)
        if not roots:
            raise NotFound(f"there is no trace {trace_id}", hint="see the latest with: muster task list")
        [root] = roots
        return _Kept(Session.of(root.task_id, trace_id, agent=root.agent, title=root.intent))
