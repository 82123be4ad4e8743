"""Batches over HTTP. The body is the batch's document itself: TOML, YAML or JSON, as its `Content-Type` says."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from envelope.asks import AskTerms

from ..batch.difference import Difference
from ..batch.formats import FORMATS
from ..batch.plan import Planned
from ..batch.preview import BatchPreview
from ..batch.report import OverlapReport
from ..batch.status import BatchStatus
from ..errors import BadInput, near_miss
from .access import Caller, Submitter, Viewer
from .documents import planned_for
from .reach import Reach
from .reading import BodyRoute, Reading
from .tasks import Accepted, IdempotencyKey, accepted

router = APIRouter(route_class=BodyRoute, prefix="/v1/batches", tags=["batches"])

# By media type; what is sent without one, as `curl --data` does, is looked at as JSON.
LANGUAGES = {
    "application/toml": "TOML",
    "application/yaml": "YAML",
    "application/x-yaml": "YAML",
    "text/yaml": "YAML",
    "application/json": "JSON",
}
MEDIA_TYPES = {
    "markdown": "text/markdown",
    "junit": "application/xml",
    "sarif": "application/sarif+json",
    "jsonl": "application/jsonl",
    "github": "text/plain",
    "codequality": "application/json",
    "json": "application/json",
}

SCHEMA = "`muster schema batch` prints it."
_DOCUMENT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "description": SCHEMA}},
            "application/toml": {"schema": {"type": "string"}},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}
_REPORT: dict[int | str, dict[str, Any]] = {200: {"content": {media: {} for media in MEDIA_TYPES.values()}}}


@router.post("", status_code=201, openapi_extra=_DOCUMENT)
async def submit_batch(request: Request, caller: Submitter, response: Response, key: IdempotencyKey = "") -> Accepted:
    """Hand over a batch, once its repositories have been looked at. Follow it by its trace's events.

    The same document on the same commits is one batch, until it fails: then it is done again. Under an
    `Idempotency-Key` it is the key's first one, however that ended. Nothing is published by itself.
    """
    plan = await _plan(request, caller)
    await plan.preview(caller.muster.settings)  # what a run would be refused for is said now
    handle = await caller.muster.batches.submit(
        plan, sender=caller.name, tenant=caller.tenant, asks=AskTerms(), idempotency_key=key
    )
    return accepted(handle, caller, response)


@router.post("/preview", openapi_extra=_DOCUMENT)
async def preview_batch(request: Request, caller: Submitter) -> BatchPreview:
    """What it would do, where that would go, and what it will about cost and take. Nothing is submitted."""
    plan, forges = await _plan(request, caller), Reach(caller.muster.settings.forges, caller.seen_tenant).allowed
    return await caller.muster.batches.preview(plan, tenant=caller.tenant, forges=forges)


@router.post("/{task_id}/diff", openapi_extra=_DOCUMENT)
async def diff_batch(task_id: str, request: Request, caller: Submitter) -> Difference:
    """What the document would do that this batch has not done: how it changed, and which shards are affected."""
    await caller.record(task_id)
    return await caller.muster.batches.difference(await _plan(request, caller), task_id)


@router.get("/{task_id}/status")
async def show_batch(task_id: str, caller: Viewer) -> BatchStatus:
    """How far it is: its tasks by state, and what they have cost."""
    await caller.record(task_id)
    return await caller.muster.batches.status(task_id)


@router.post("/{task_id}/retry", status_code=201)
async def retry_batch(task_id: str, caller: Submitter, response: Response) -> Accepted:
    """Go on with a batch that failed or was stopped, as it was handed over. What was done is not done again.

    409 while it is under way.
    """
    await caller.record(task_id)
    return accepted(await caller.muster.batches.retry(task_id, sender=caller.name), caller, response)


@router.get("/{task_id}/report", response_class=Response, responses=_REPORT)
async def show_report(
    task_id: str,
    caller: Viewer,
    form: Annotated[str, Query(alias="format", max_length=20, description=f"One of: {', '.join(MEDIA_TYPES)}.")] = (
        "json"
    ),
) -> Response:
    """What it came to, in the form that another program reads. 409 while it is under way."""
    await caller.record(task_id)
    if form not in MEDIA_TYPES:
        raise BadInput(f"there is no report format {form!r}", hint=near_miss(form, MEDIA_TYPES))
    report = await caller.muster.batches.report(task_id)
    text = FORMATS[form](report) if form in FORMATS else report.model_dump_json()
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(text, media_type=MEDIA_TYPES[form], headers=headers)


@router.get("/{task_id}/overlaps")
async def show_overlaps(task_id: str, caller: Viewer) -> dict[str, list[OverlapReport]]:
    """Which of its patches change the same files, by repository: while it is at work, and after it."""
    await caller.record(task_id)
    return {name: list(found) for name, found in (await caller.muster.batches.overlaps(task_id)).items()}


async def _plan(request: Request, caller: Caller) -> Planned:
    reading: Reading = request.app.state.reading
    language = _language(request)
    async with reading.places[f"{caller.name}:batches"]:  # repositories are fetched: no other call waits for that
        content = await request.body()
        return await planned_for(caller, content, language, request.app.state.batch_places)


def _language(request: Request) -> str:
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media not in LANGUAGES:
        known = ", ".join(sorted(set(LANGUAGES)))
        raise BadInput(f"a batch is no {media[:100]}", hint=f"say what it is in Content-Type: {known}")
    return LANGUAGES[media]
