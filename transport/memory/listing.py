"""Listings of tasks, page by page. They are made anew for each page: what tells the truth here are the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..base import Page
from ..listing import Place, cursor_of, place_of
from .fleet import Fleet
from .tasks import Task


def latest(fleet: Fleet, tenant: str | None, after: str, limit: int) -> Page:
    return _latest(fleet, _roots(fleet, tenant), after, limit)


def live(fleet: Fleet, tenant: str | None, shards: bool | None, after: str, limit: int) -> Page:
    roots = [root for root in _roots(fleet, tenant) if root.live and shards in (None, bool(root.request.batch_id))]
    return replace(_latest(fleet, roots, after, limit), total=len(roots))


def asking(fleet: Fleet, tenant: str | None, trace_id: str | None, after: str, limit: int) -> Page:
    asks = [task for task in fleet.tasks.values() if task.asks and tenant in (None, task.request.tenant)]
    places = sorted((task.asks_since_ms, task.id) for task in asks if trace_id in (None, task.trace_id))
    begin = place_of(after)
    page = _page(fleet, [place for place in places if begin is None or place > begin], limit)
    return page if trace_id else replace(page, total=len(asks))


def _roots(fleet: Fleet, tenant: str | None) -> Iterator[Task]:
    known = (fleet.tasks[trace.root] for trace in fleet.traces.values())
    return (task for task in known if tenant in (None, task.request.tenant))


def _latest(fleet: Fleet, roots: Iterable[Task], after: str, limit: int) -> Page:
    begin = place_of(after)
    places = sorted(((task.accepted_at_ms, task.id) for task in roots), reverse=True)
    return _page(fleet, [place for place in places if begin is None or place < begin], limit)


def _page(fleet: Fleet, places: list[Place], limit: int) -> Page:
    page = places[:limit]
    records = tuple(fleet.tasks[task_id].record() for _, task_id in page)
    return Page(records, cursor_of(page[-1]) if page and len(page) == limit else "")
