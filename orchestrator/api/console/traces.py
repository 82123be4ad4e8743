"""Traces: the list of them, and the tree of one as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from envelope.lifecycle import State
from transport.base import Page, TaskRecord

from ...client import Muster
from ...pages import Wanted, page_of
from ...session.said import GLYPH
from ...words import finds
from ..access import Caller
from .live import live
from .offers import OF_TASKS, offered
from .rendering import fragment, page
from .rooms import Looks, Pace
from .tree import Tree, began_ms, in_order, matches
from .visitor import Viewer

router = APIRouter()

PER_PAGE = 50
# A first screenful and one more to scroll to: the live stream brings the others.
FIRST_ROWS = 60
PACE = Pace(every_s=2.0)

Words = Annotated[str, Query(max_length=200)]
PageNumber = Annotated[int, Query(ge=1, alias="page")]
States = Annotated[Sequence[State], Query()]


@router.get("/traces")
async def list_traces(request: Request, caller: Viewer, q: Words = "", state: States = (), after: str = "") -> Response:
    """The latest first, `PER_PAGE` at a time; the first page alone goes on by itself."""
    found = await _roots(caller, q, state, after)
    parts = await _list_parts(caller.muster, found)
    # what comes and goes is told of the first page only: the others would move under who reads them
    goes_on = not (q or after)
    return page(
        request,
        "traces.html",
        parts=parts,
        q=q,
        states=[(each, GLYPH[each], each in state) for each in State],
        query=[("q", q), *(("state", each.value) for each in state)],
        live=goes_on,
        cursor=found.cursor,
        is_first=not after,
    )


@router.get("/traces-live")
async def follow_traces(request: Request, caller: Viewer, state: States = ()) -> Response:
    wanted = sorted(set(state))
    name = f"traces:{caller.token.tenant}:{','.join(wanted)}"
    return live(request, caller, name, _listing(caller, wanted), pace=PACE)


@router.get("/traces/{trace_id}")
async def show_trace(
    request: Request,
    trace_id: str,
    caller: Viewer,
    q: Words = "",
    number: PageNumber = 1,
) -> Response:
    """A page of the tree's rows: all that who has no script sees, and what others see until the stream brings more."""
    await caller.require_trace(trace_id)
    session, ledger, now_ms = await asyncio.gather(
        caller.muster.tree(trace_id), caller.muster.transport.ledger(trace_id), caller.muster.transport.now_ms()
    )
    chosen = [task.task_id for task, _ in in_order(session) if not q or matches(task, q)]
    pages = max(1, -(-len(chosen) // FIRST_ROWS))
    number = min(number, pages)
    shown = chosen[(number - 1) * FIRST_ROWS : number * FIRST_ROWS]
    tree = Tree()
    parts = tree.take(session, set(shown), now_ms)
    return page(
        request,
        "trace.html",
        trace_id=trace_id,
        task=session.root_task,
        head=parts["trace-head"],
        rows=[parts[f"tree-{tree.numbers[task_id]}"] for task_id in shown],
        shown_of=(len(chosen), len(session.tasks)),
        number=number,
        pages=pages,
        q=q,
        ledger=ledger,
        now_ms=now_ms,
        begin_ms=began_ms(session),
        may=await offered(caller, session.root, OF_TASKS),
    )


@router.get("/traces/{trace_id}/live")
async def follow_trace(request: Request, trace_id: str, caller: Viewer) -> Response:
    await caller.require_trace(trace_id)
    return live(request, caller, f"trace:{trace_id}", _growing(caller.muster, trace_id))


def _growing(muster: Muster, trace_id: str) -> Looks:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        tree = Tree()
        async for session, changed in muster.watch_tree(trace_id):
            yield tree.take(session, changed, await muster.transport.now_ms())

    return looks


def _listing(caller: Caller, states: Sequence[State]) -> Looks:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        while True:
            yield await _list_parts(caller.muster, await _roots(caller, "", states, ""))

    return looks


async def _list_parts(muster: Muster, found: Page) -> dict[str, str]:
    now_ms = await muster.transport.now_ms()
    return {"traces-list": fragment("traces/list.html", records=found.records, glyphs=GLYPH, now_ms=now_ms)}


async def _roots(caller: Caller, words: str, states: Sequence[State], after: str) -> Page:
    def fits(record: TaskRecord) -> bool:
        return finds(words, f"{record.intent} {record.agent}", record.task_id, record.trace_id)

    wanted = Wanted(caller.seen_tenant, states, fits)
    return await page_of(caller.muster.transport, wanted, after=after, limit=PER_PAGE)
