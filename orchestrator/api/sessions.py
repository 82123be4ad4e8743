"""Sessions with agents: seen, copied, shared and put away. A task names its session; a goal its agent's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from .access import Submitter, Viewer
from .reading import BodyRoute
from .tasks import NEXT, Accepted, Body, accepted

router = APIRouter(route_class=BodyRoute, prefix="/v1/sessions", tags=["sessions"])

MAX_LISTED = 200


class Fork(Body):
    """`turn`: the one to copy up to; None: the last so far, 0: before the first prompt."""

    turn: Annotated[int, Field(ge=0, le=10**6)] | None = None


class Revert(Body):
    """`turn`: the one to go back to the end of; 0: before the first prompt."""

    turn: Annotated[int, Field(ge=0, le=10**6)]


class Archive(Body):
    archived: bool = True


@router.get("")
async def list_sessions(
    caller: Viewer,
    response: Response,
    archived: bool = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 20,
    cursor: Annotated[str, Query(description="Go on where an earlier page ended: its `Next-Cursor` header.")] = "",
) -> list[dict[str, Any]]:
    """Those that people of the caller's tenant began, the latest first. Go on: `POST /v1/tasks/TASK/resume`."""
    page = await caller.muster.sessions(tenant=caller.seen_tenant, archived=archived, after=cursor, limit=limit)
    if page.cursor:
        response.headers[NEXT] = page.cursor
    return [asdict(row) for row in page.sessions]


@router.get("/{task_id}")
async def show_session(task_id: str, caller: Viewer) -> dict[str, Any]:
    """Where the session of a task stands."""
    await caller.record(task_id)
    return asdict(await caller.muster.session(task_id))


@router.post("/{task_id}/fork", status_code=201)
async def fork_session(task_id: str, fork: Fork, caller: Submitter, response: Response) -> Accepted:
    """Open a session with a copy of a task's, up to a turn; the old one stays as it is. The task that does so."""
    await caller.record(task_id)
    return accepted(await caller.muster.fork(task_id, turn=fork.turn), caller, response)


@router.post("/{task_id}/revert", status_code=201)
async def revert_session(task_id: str, wish: Revert, caller: Submitter, response: Response) -> Accepted:
    """Take a session and its work back to where a turn ended. The task that does so; 409 while the session runs."""
    await caller.record(task_id)
    return accepted(await caller.muster.revert(task_id, wish.turn), caller, response)


@router.put("/{task_id}/archived")
async def archive_session(task_id: str, wish: Archive, caller: Submitter) -> Archive:
    """Leave a session out of listings, or list it again."""
    await caller.record(task_id)
    await caller.muster.archive(task_id, archived=wish.archived)
    return wish


@router.get("/{task_id}/export", response_class=Response)
async def export_session(task_id: str, caller: Viewer, sanitize: bool = True) -> Response:
    """The session as JSON; without its texts, so that it may be shared, unless they are asked for."""
    await caller.record(task_id)
    return Response(await caller.muster.export(task_id, sanitize=sanitize), media_type="application/json")
