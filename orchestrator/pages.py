"""Listings of tasks, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from envelope.lifecycle import State
from transport.base import Page, TaskRecord, Transport
from transport.listing import cursor_of

# A page of rare ones ends here even when it is not full: its cursor goes on.
LOOKED_AT = 2_000
AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """`tenant`: None for all. `states`: none means any. `fits`: what else a root must be."""

    tenant: str | None = None
    states: Collection[State] = ()
    fits: Callable[[TaskRecord], bool] = lambda _: True

    def takes(self, record: TaskRecord) -> bool:
        return (not self.states or record.state in self.states) and self.fits(record)


async def records_of(
    listing: Callable[..., Awaitable[Page]], *, after: str = "", at_once: int = AT_ONCE, **which: Any
) -> AsyncIterator[TaskRecord]:
    """All that one of the transport's listings has, from a cursor on."""
    more = True
    while more:
        page = await listing(after=after, limit=at_once, **which)
        for record in page.records:
            yield record
        after = page.cursor
        more = bool(after)


async def page_of(transport: Transport, wanted: Wanted, *, after: str, limit: int) -> Page:
    """Up to `limit` of the roots that are wanted, the latest first."""
    found: list[TaskRecord] = []
    for _ in range(max(1, LOOKED_AT // AT_ONCE)):
        page = await transport.roots(tenant=wanted.tenant, after=after, limit=AT_ONCE)
        for index, record in enumerate(page.records, 1):
            if wanted.takes(record):
                found.append(record)
            if len(found) == limit:
                is_last = index == len(page.records) and not page.cursor
                place = (record.accepted_at_ms, record.task_id)
                return Page(tuple(found), "" if is_last else cursor_of(place))
        after = page.cursor
        if not after:
            break
    return Page(tuple(found), after)
