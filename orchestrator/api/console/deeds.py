"""What people do to tasks and traces: say something, stop, go on, plan again, raise the money."""

from __future__ import annotations

from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Response
from fastapi.responses import RedirectResponse

from envelope.budget import MICROUSD_PER_USD

from .visitor import Approver, Submitter

router = APIRouter()

MAX_USD = 1_000_000
Text = Annotated[str, Form(max_length=100_000)]
Reason = Annotated[str, Form(max_length=1_000)]


@router.post("/tasks/{task_id}/prompt")
async def prompt_task(task_id: str, caller: Submitter, text: Text = "") -> Response:
    """On to the task that answers."""
    await caller.record(task_id)
    return _to_task((await caller.muster.prompt(task_id, text, by=caller.name)).task_id)


@router.post("/tasks/{task_id}/resume")
async def resume_task(task_id: str, caller: Submitter, prompt: Text = "") -> Response:
    await caller.record(task_id)
    return _to_task((await caller.muster.resume(task_id, prompt)).task_id)


@router.post("/tasks/{task_id}/replan")
async def replan_task(task_id: str, caller: Submitter, reason: Reason = "") -> Response:
    record = await caller.record(task_id)
    await caller.muster.replan(task_id, reason or "asked for", by=caller.name)
    return _to_trace(record.trace_id)


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, caller: Submitter, reason: Reason = "") -> Response:
    record = await caller.record(task_id)
    await caller.muster.cancel(task_id, reason or "asked for", by=caller.name)
    return _to_trace(record.trace_id)


@router.post("/traces/{trace_id}/budget")
async def raise_budget(
    trace_id: str, caller: Approver, cap_usd: Annotated[Decimal, Form(ge=0, le=MAX_USD)]
) -> Response:
    await caller.require_trace(trace_id)
    await caller.muster.raise_budget(trace_id, int(cap_usd * MICROUSD_PER_USD), by=caller.name)
    return _to_trace(trace_id)


def _to_task(task_id: str) -> Response:
    return RedirectResponse(f"/console/tasks/{task_id}", HTTPStatus.SEE_OTHER)


def _to_trace(trace_id: str) -> Response:
    return RedirectResponse(f"/console/traces/{trace_id}", HTTPStatus.SEE_OTHER)
