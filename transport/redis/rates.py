"""The limiter on Redis: each key's numbers live in one cell, whichever trace calls."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..rates import MAX_PAUSE_MS, PACE, Ask, Later, Permit, Quota, base_rates
from .cells import Cells

_PACE = asdict(PACE)


class RedisRates:
    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    async def ask(self, ask: Ask) -> Permit | Later:
        """An ask whose answer was lost is sent again: at worst a call's time passes unused."""
        told = {"trace": ask.trace_id, "ticket": ask.ticket, "place": ask.place, "wants": ask.tokens}
        news = {"owed": ask.owed_tokens, "served": ask.served}
        went, *answer = await self._run("ask", ask.key, ask.quota, **told, **news)
        if went:
            return Permit(answer[0], float(answer[1]))
        return Later(answer[0], answer[1], float(answer[2]))

    async def leave(self, key: str, ticket: str) -> None:
        await self._run("leave", key, Quota(), ticket=ticket)

    async def slow_down(self, key: str, permit: Permit, quota: Quota, *, pause_ms: int) -> None:
        await self._run("slow_down", key, quota, permit_at=permit.at_ms, pause_ms=min(pause_ms, MAX_PAUSE_MS))

    async def _run(self, what: str, key: str, quota: Quota, **values: Any) -> Any:
        requests, tokens, least = base_rates(quota)
        cell = self._cells.of_trace(key)
        rates = {"requests": requests, "tokens": tokens, "least": least, "unknown": quota == Quota()}
        return await cell.run("rate", repeatable=True, what=what, key=key, **{**_PACE, **rates, **values})
