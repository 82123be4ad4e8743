"""What people do to tasks and traces: say something, stop, go on, plan again, raise the money."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from .forms import amount_of, form_of, text_of
from .rendering import on_to
from .visitor import Approver, Submitter

router = APIRouter()

Text = Annotated[str, Form(max_length=100_000)]
Reason = Annotated[str, Form(max_length=1_000)]


@router.post("/tasks/{task_id}/prompt")
async def prompt_task(task_id: str, caller: Submitter, text: Text = "") -> Response:
    """On to the task that answers."""
    await caller.record(task_id)
    return on_to(f"/tasks/{(await caller.muster.prompt(task_id, text, by=caller.name)).task_id}")


@router.post("/tasks/{task_id}/resume")
async def resume_task(task_id: str, caller: Submitter, prompt: Text = "") -> Response:
    await caller.record(task_id)
    return on_to(f"/tasks/{(await caller.muster.resume(task_id, prompt)).task_id}")


@router.post("/tasks/{task_id}/replan")
async def replan_task(task_id: str, caller: Submitter, reason: Reason = "") -> Response:
    record = await caller.record(task_id)
    await caller.muster.replan(task_id, reason or "asked for", by=caller.name)
    return on_to(f"/traces/{record.trace_id}")


@router.post("/tasks/{task_id}/cancel")
async def cancel_task(task_id: str, caller: Submitter, reason: Reason = "") -> Response:
    record = await caller.record(task_id)
    await caller.muster.cancel(task_id, reason or "asked for", by=caller.name)
    return on_to(f"/traces/{record.trace_id}")


@router.post("/traces/{trace_id}/budget")
async def raise_budget(request: Request, trace_id: str, caller: Approver) -> Response:
    """Back to where the form was: on the trace's page, or on the one that the inbox leads to."""
    await caller.require_trace(trace_id)
    form = await form_of(request)
    await caller.muster.raise_budget(trace_id, amount_of(form, "dollars"), by=caller.name)
    return on_to("/asks" if text_of(form, "from") == "asks" else f"/traces/{trace_id}")
