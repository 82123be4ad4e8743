"""A batch on its way to the fleet: what is done already is not even packed."""

from __future__ import annotations

from envelope.asks import AskTerms
from envelope.lifecycle import State
from repo.local import locate
from transport.base import Handle
from transport.errors import NotFound

from ..batch.report import BatchReport
from ..batch.request import batch_request
from ..batch.starts import Start
from ..client import Muster
from ..read_only import as_read_only
from ..settings import Settings
from ..submit import RepositoryInput
from .batch_plan import Planned
from .console import note
from .places import latest_of, remember
from .repository import head_of


async def submitted(muster: Muster, plan: Planned, settings: Settings, asks: AskTerms | None) -> Handle:
    """The batch's task, new or old, which the file's next run will know."""
    handle = await _done_before(muster, plan, settings)
    if handle is None:
        inputs = [await _packed(muster, name, start) for name, start in plan.starts.items()]
        request = batch_request(plan.spec, inputs, settings=settings, found=plan.found, asks=asks)
        handle = await muster.submit_repeatable(request)
    remember(settings, handle.task_id, plan.file)
    if handle.existing:
        state = "already done" if await muster.result(handle.task_id) else "already under way"
        note(f"{plan.spec.name} is {state} as {handle.task_id}; nothing is submitted again")
    return handle


async def tell_moved(plan: Planned, report: BatchReport) -> None:
    """What was committed meanwhile is no part of the result; another run does only what that has changed."""
    for repository in report.repositories:
        folder = plan.folders.get(repository.name)
        if folder is not None and plan.is_at_head(repository.name) and await head_of(folder) != repository.base:
            short = repository.base[:12]
            note(f"{repository.name} has moved on from {short} meanwhile; run it again: only what changed is done anew")


async def _done_before(muster: Muster, plan: Planned, settings: Settings) -> Handle | None:
    """The file's last run, when it was this very batch and completed."""
    task_id = latest_of(settings, plan.file)
    if task_id is None:
        return None
    inputs = [RepositoryInput(name=name, bundle="", base=start.base) for name, start in plan.starts.items()]
    wanted = batch_request(plan.spec, inputs, settings=settings, found=plan.found)
    wanted = as_read_only(wanted) if settings.read_only else wanted
    try:
        earlier, result = await muster.request(task_id), await muster.result(task_id)
    except NotFound:
        return None
    is_same = (earlier.idempotency_key, earlier.tenant) == (wanted.idempotency_key, wanted.tenant)
    if not is_same or result is None or result.status is not State.COMPLETED:
        return None
    return Handle(earlier.task_id, earlier.trace_id, existing=True)


async def _packed(muster: Muster, name: str, start: Start) -> RepositoryInput:
    workspace = await muster.pack(start.folder or await locate(start.git_dir), commit=start.base)
    return RepositoryInput(name=name, bundle=workspace.bundle or "", base=workspace.base, url=start.url)
