"""Batches: a list, a board of each while it is at work, its report when it has ended, and what is done to many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from envelope.errors import MusterError
from envelope.lifecycle import TERMINAL
from repo.errors import RepoError
from transport.base import TaskRecord
from transport.errors import NotFound

from ...batch.board import COLUMNS, Board, board_of
from ...batch.causes import causes
from ...batch.formats.gate_part import gate_lines, output_of
from ...batch.merge_advice import by_hand
from ...batch.report import BatchReport, CollisionReport
from ...client import Muster
from ...errors import BadInput
from ...pages import Wanted, page_of
from ...publication.book import WAITS_FOR_PEOPLE
from ...submit import BATCH
from ...words import counted
from ..caller import Caller
from ..publications import Comment, close_requests, comment_on, show_publications
from ..tokens import Right
from .forms import form_of, in_words_of_pages, text_of, texts_of, unusable
from .live import live
from .offers import OF_BATCHES, offered
from .rendering import fragment, on_to, page
from .rooms import Looks, Pace
from .visitor import Publisher, Submitter, Viewer, require_right

router = APIRouter(prefix="/batches")

LISTED = 50
MAX_CARDS = 60  # in a column: who wants to see more of one asks for that column
MAX_MERGES = 200
MAX_AT_ONCE = 100  # batches that one form is about
MAX_SIDE_CHARS = 60_000  # of a patch beside another
PACE = Pace(every_s=1.0)


@router.get("")
async def list_batches(request: Request, caller: Viewer, cursor: str = "") -> Response:
    found = await _page(caller.muster, caller.seen_tenant, after=cursor)
    states = {f"state-{one.task_id}": fragment("batches/state.html", record=one) for one in found.records}
    may = caller.rights & {Right.SUBMIT, Right.PUBLISH}
    return page(request, "batches.html", found=found, states=states, may=may, is_first=not cursor)


@router.get("/live")
async def follow_batches(request: Request, caller: Viewer) -> Response:
    looks = _listed(caller.muster, caller.seen_tenant)
    return live(request, caller, f"batches:{caller.token.tenant}", looks, pace=PACE)


@router.post("/bulk")
async def do_to_many(request: Request, caller: Viewer) -> Response:
    """One deed for each batch that was chosen; what became of each is on the page that answers."""
    form = await form_of(request)
    name, chosen = text_of(form, "deed"), texts_of(form, "batch")[:MAX_AT_ONCE]
    if name not in DEEDS:
        raise unusable(f"there is no deed {name!r}")
    right, deed = DEEDS[name]
    require_right(caller, right)
    if not chosen:
        raise unusable("no batch was chosen", "tick some, then choose what to do")
    told = [await _tried(deed, caller, task_id, text_of(form, "text")) for task_id in chosen]
    return page(request, "batches/bulk.html", told=told, deed=name)


@router.get("/{task_id}")
async def show_batch(request: Request, task_id: str, caller: Viewer) -> Response:
    record = await batch_of(caller, task_id)
    board = board_of(await caller.muster.tree(record.trace_id))
    report = await _report(caller.muster, record)
    said: dict[str, Any] = {"ended": record.state in TERMINAL}
    said |= {"record": record, "may": await offered(caller, task_id, OF_BATCHES)}
    told = await show_publications(task_id, caller)
    return page(request, "batches/batch.html", **said, **_ended(report), parts=parts_of(record, board), published=told)


@router.get("/{task_id}/live")
async def follow_batch(request: Request, task_id: str, caller: Viewer) -> Response:
    await batch_of(caller, task_id)
    return live(request, caller, f"batch:{task_id}", _board_looks(caller.muster, task_id), pace=PACE)


@router.get("/{task_id}/column/{name}")
async def show_column(request: Request, task_id: str, name: str, caller: Viewer) -> Response:
    """All of one column, whatever their number."""
    record = await batch_of(caller, task_id)
    if name not in COLUMNS:
        raise NotFound(f"a board has no column {name!r}", hint="go back to the batch")
    cards = board_of(await caller.muster.tree(record.trace_id)).columns[name]
    return page(request, "batches/whole_column.html", record=record, title=name, cards=cards)


@router.get("/{task_id}/collisions/{repository}/{number}")
async def show_collision(request: Request, task_id: str, repository: str, number: int, caller: Viewer) -> Response:
    """Both sides of what did not fit, in the files where they meet."""
    record = await batch_of(caller, task_id)
    report = await caller.muster.batches.report(task_id)
    found = next((one.collisions for one in report.repositories if one.name == repository), ())
    if not 0 <= number < len(found):
        raise NotFound("there is no such collision", hint="go back to the batch")
    collision = found[number]
    sides = [(collision.key, collision.task_id), *zip(collision.with_keys, collision.with_tasks, strict=False)]
    shown = [(key, side, await _side(caller, side, collision)) for key, side in sides]
    return page(request, "batches/collision.html", record=record, collision=collision, sides=shown)


@router.post("/{task_id}/retry")
async def retry(request: Request, task_id: str, caller: Submitter) -> Response:
    """303 to the batch that does again what failed."""
    await batch_of(caller, task_id)
    handle = await caller.muster.batches.retry(task_id, sender=caller.name)
    return on_to(f"/batches/{handle.task_id}")


@router.post("/{task_id}/cancel")
async def cancel(request: Request, task_id: str, caller: Submitter) -> Response:
    await _cancel(caller, await batch_of(caller, task_id), "")
    return on_to(f"/batches/{task_id}")


@router.post("/{task_id}/comment")
async def comment(request: Request, task_id: str, caller: Publisher) -> Response:
    """On all of its open requests."""
    told = await _comment(caller, await batch_of(caller, task_id), text_of(await form_of(request), "text"))
    return page(request, "batches/bulk.html", told=[told], deed="comment")


@router.post("/{task_id}/close")
async def close(request: Request, task_id: str, caller: Publisher) -> Response:
    told = await _close(caller, await batch_of(caller, task_id), "")
    return page(request, "batches/bulk.html", told=[told], deed="close")


@dataclass(frozen=True, slots=True)
class Became:
    """What became of one of the chosen. `on`: the batch that goes on with it."""

    task_id: str
    name: str
    said: str
    on: str = ""
    is_done: bool = True


async def _retry(caller: Caller, record: TaskRecord, _text: str) -> Became:
    handle = await caller.muster.batches.retry(record.task_id, sender=caller.name)
    return Became(record.task_id, record.intent, "does again what failed", on=handle.task_id)


async def _cancel(caller: Caller, record: TaskRecord, _text: str) -> Became:
    if record.state in TERMINAL:
        raise BadInput(f"the batch has ended already: {record.state}")
    stopped = await caller.muster.cancel(record.task_id, "asked for", by=caller.name)
    return Became(record.task_id, record.intent, f"{counted(stopped, 'task')} stopped")


async def _comment(caller: Caller, record: TaskRecord, text: str) -> Became:
    if not text:
        raise unusable("there is nothing in the comment", "say what reviewers should know")
    async with in_words_of_pages():
        said = (await comment_on(record.task_id, Comment(text=text), caller)).said
    if said:
        return Became(record.task_id, record.intent, f"said on {counted(said, 'request')}")
    told = await show_publications(record.task_id, caller)
    has_open = any(each.stage in WAITS_FOR_PEOPLE for each in told)
    why = "this was said there before" if has_open else "it has no open request"
    return Became(record.task_id, record.intent, why, is_done=has_open)


async def _close(caller: Caller, record: TaskRecord, _text: str) -> Became:
    closed = await close_requests(record.task_id, caller)
    said = f"{counted(len(closed), 'request')} closed" if closed else "it has no open request"
    return Became(record.task_id, record.intent, said, is_done=bool(closed))


Deed = Callable[[Caller, TaskRecord, str], Awaitable[Became]]
DEEDS: Mapping[str, tuple[Right, Deed]] = {
    "retry": (Right.SUBMIT, _retry),
    "cancel": (Right.SUBMIT, _cancel),
    "comment": (Right.PUBLISH, _comment),
    "close": (Right.PUBLISH, _close),
}


async def _tried(deed: Deed, caller: Caller, task_id: str, text: str) -> Became:
    """One that cannot be done stops none of the others."""
    name = ""
    try:
        record = await batch_of(caller, task_id)
        name = record.intent
        return await deed(caller, record, text)
    except (MusterError, RepoError) as e:
        return Became(task_id, name, str(e), is_done=False)


async def batch_of(caller: Caller, task_id: str) -> TaskRecord:
    """`NotFound` for what is no batch of theirs."""
    record = await caller.record(task_id)
    if record.agent != BATCH:
        raise NotFound(f"the task {task_id} is no batch", hint="see it under Traces")
    return record


async def _page(muster: Muster, tenant: str | None, *, after: str = "") -> Any:
    wanted = Wanted(tenant, (), lambda record: record.agent == BATCH)
    return await page_of(muster.transport, wanted, after=after, limit=LISTED)


async def _report(muster: Muster, record: TaskRecord) -> BatchReport | None:
    """None while it is under way, and of one that ended before there was anything to report."""
    try:
        return await muster.batches.report(record.task_id)
    except (BadInput, NotFound):
        return None


def _ended(report: BatchReport | None) -> dict[str, Any]:
    if report is None:
        return {"report": None}
    return {
        "report": report,
        "causes": causes(report),
        "gates": [(one, gate_lines(one), output_of(one).strip()) for one in report.repositories],
        "has_changed": any(one.changed and one.bundle for one in report.repositories),
        "by_hand": [each for one in report.repositories for each in by_hand(one, report.branch)],
        "max_cards": MAX_CARDS,
    }


async def _side(caller: Caller, task_id: str, collision: CollisionReport) -> str:
    """A task's patch, as far as it is about the files in which it met the other."""
    if not task_id:
        return ""
    await caller.record(task_id)
    diff = await caller.muster.diff(task_id)
    return await asyncio.to_thread(_about, diff, collision.paths)  # of the largest half a second


def _about(diff: bytes, paths: Sequence[str]) -> str:
    files = [f"diff --git {each}" for each in diff.decode(errors="replace").split("diff --git ")[1:]]
    wanted = [file for file in files if any(path in file.partition("\n")[0] for path in paths)]
    return "".join(wanted or files)[:MAX_SIDE_CHARS]


def parts_of(record: TaskRecord, board: Board) -> dict[str, str]:
    """The page's parts that change. A column that does not change is not sent again."""
    columns: dict[str, str] = {
        f"column-{name.replace(' ', '-')}": fragment(
            "batches/column.html", record=record, title=name, cards=cards, max_cards=MAX_CARDS
        )
        for name, cards in board.columns.items()
    }
    return {
        "batch-head": fragment("batches/head.html", record=record, board=board),
        **columns,
        "batch-failures": fragment("batches/failures.html", board=board, max_cards=MAX_CARDS),
        "batch-merges": fragment("batches/merges.html", board=board, max_merges=MAX_MERGES),
    }


def _board_looks(muster: Muster, task_id: str) -> Looks:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        while True:
            record = await muster.record(task_id)
            parts = parts_of(record, board_of(await muster.tree(record.trace_id)))
            if record.state in TERMINAL:
                yield {**parts, "batch-ended": fragment("batches/ended.html", record=record)}
                return
            yield parts

    return looks


def _listed(muster: Muster, tenant: str | None) -> Looks:
    """How those of the first page stand; new ones are there when the page is loaded again."""

    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        while True:
            found = await _page(muster, tenant)
            yield {f"state-{one.task_id}": fragment("batches/state.html", record=one) for one in found.records}

    return looks
