"""The sessions that people have had with agents: which there are, copies of them, and putting them out of sight."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points

from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskRequest
from transport.base import Blobs, TaskRecord, Transport
from transport.errors import NotFound, no_session

from .errors import BadInput
from .pages import Wanted, page_of
from .prompting import going_on
from .resume import goal_id
from .submit import DRIVERS, RECIPE, RUN, VERIFY

MAX_CHILDREN = 100  # of a goal: its agents are among the first
# A page of sessions looks through so many goals at most; its cursor goes on.
PAGES = 10
# Who knows what a session holds: the package that brings `muster task export` (`pyproject.toml`).
TELLER = ("muster.commands", "task")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session by its latest task that is listed. `title`: what was asked first or last, as far as it is known."""

    session_id: str
    task_id: str
    trace_id: str
    agent: str
    title: str
    state: State
    tenant: str
    began_at_ms: int
    ended_at_ms: int | None
    archived: bool = False

    @property
    def is_live(self) -> bool:
        return self.state not in TERMINAL


@dataclass(frozen=True, slots=True)
class SessionPage:
    """`cursor`: what to go on after; empty at the end. A session may be on several pages, once for each."""

    sessions: tuple[SessionRow, ...]
    cursor: str


async def sessions_of(
    transport: Transport, *, tenant: str | None, archived: bool, after: str, limit: int
) -> SessionPage:
    """Those that people began, latest first: of agents, and of the agents of goals. Not of batches and fan-outs.

    `archived`: those, instead of the others.
    """
    found: dict[str, SessionRow] = {}
    for _ in range(PAGES):
        page = await page_of(transport, Wanted(tenant, fits=_is_ones_own), after=after, limit=limit - len(found))
        rows = [
            row for group in await asyncio.gather(*(_rows(transport, root) for root in page.records)) for row in group
        ]
        marked = await transport.archived([row.session_id for row in rows])
        for row in rows:
            if (row.session_id in marked) == archived:
                found.setdefault(row.session_id, replace(row, archived=archived))
        after = page.cursor
        if not after or len(found) >= limit:
            break
    return SessionPage(tuple(found.values()), after)


def _is_ones_own(root: TaskRecord) -> bool:
    if root.pool == DRIVERS:
        return root.agent == RUN
    return not root.batch_id and root.agent not in (RECIPE, VERIFY)


async def _rows(transport: Transport, root: TaskRecord) -> Sequence[SessionRow]:
    if root.pool != DRIVERS:
        return [_row(root, root.intent)] if _has_begun(root) else []
    inside = await transport.tasks(trace_id=root.trace_id, limit=MAX_CHILDREN)
    agents = [task for task in inside if task.parent_task_id == root.task_id and task.agent != VERIFY]
    latest: Mapping[str, TaskRecord] = {_session_of(task): task for task in agents if _has_begun(task)}
    return [_row(task, root.intent) for task in latest.values()]


def _has_begun(task: TaskRecord) -> bool:
    return task.checkpoint is not None or task.state not in TERMINAL


def _session_of(task: TaskRecord) -> str:
    return task.session_id or task.task_id


def _row(task: TaskRecord, title: str) -> SessionRow:
    return SessionRow(
        session_id=_session_of(task),
        task_id=task.task_id,
        trace_id=task.trace_id,
        agent=task.agent,
        title=title,
        state=task.state,
        tenant=task.tenant,
        began_at_ms=task.accepted_at_ms,
        ended_at_ms=task.finished_at_ms,
    )


async def session_row(transport: Transport, request: TaskRequest) -> SessionRow:
    """The session of a task with an agent."""
    row = _row(await transport.record(request.task_id), request.intent)
    return replace(row, archived=row.session_id in await transport.archived([row.session_id]))


async def fork_request(transport: Transport, request: TaskRequest, turn: int | None) -> TaskRequest:
    """A task that opens a session with a copy of a task's, as it stood after its `turn` (None: its last one so far).

    Nothing of the old session changes, and it may be under way. `NotFound` when the task has no turn yet.
    """
    if turn is not None and turn < 0:
        raise BadInput(f"there is no turn {turn}", hint="0 is before the first prompt; see: muster task turns")
    checkpoint = await checkpoint_of(transport, request)
    where = {} if turn is None else {"revert_to": turn}
    again = going_on(request, "", goal=await goal_id(transport, request))
    params = {**again.input.params, "fork_of": checkpoint, **where}
    told = {"resume_token": "", "input": again.input.model_copy(update={"params": params}), "attachments": ()}
    return again.model_copy(update=told)


async def checkpoint_of(transport: Transport, request: TaskRequest) -> str:
    record = await transport.record(request.task_id)
    if record.checkpoint is None:
        raise no_session(_session_of(record))
    return record.checkpoint


async def exported(blobs: Blobs, checkpoint: str, *, sanitize: bool, markdown: bool = False) -> str:
    """A session as text, by whoever can read one; `sanitize`: with lengths in the place of texts."""
    group, name = TELLER
    for point in entry_points(group=group, name=name):
        return await import_module(point.module).exported(blobs, checkpoint, sanitize=sanitize, markdown=markdown)
    raise NotFound("no package here can read a session", hint="install Muster with its workers")
