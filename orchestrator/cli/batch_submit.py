"""A batch on its way to the fleet: what is done already is not even packed."""

from __future__ import annotations

from envelope.asks import AskTerms
from transport.base import Handle

from ..batch.plan import Planned
from ..batch.report import BatchReport
from ..client import Muster
from ..settings import Settings
from .console import note
from .leaving import tell_known
from .places import latest_of, remember
from .repository import head_of


async def submitted(muster: Muster, plan: Planned, settings: Settings, asks: AskTerms | None) -> Handle:
    """The batch's task, new or old, which the file's next run will know."""
    handle = await done_before(muster, plan, settings) or await muster.batches.submit(plan, asks=asks, sender="cli")
    remember(settings, handle.task_id, plan.file)
    await tell_known(muster, handle, plan.spec.name)
    return handle


async def done_before(muster: Muster, plan: Planned, settings: Settings) -> Handle | None:
    """The file's last run from here, when it was this very batch and completed."""
    earlier = latest_of(settings, plan.file)
    return None if earlier is None else await muster.batches.done_before(plan, earlier)


async def tell_moved(plan: Planned, report: BatchReport) -> None:
    """What was committed meanwhile is no part of the result; another run does only what that has changed."""
    for repository in report.repositories:
        folder = plan.folders.get(repository.name)
        if folder is not None and plan.is_at_head(repository.name) and await head_of(folder) != repository.base:
            short = repository.base[:12]
            note(f"{repository.name} has moved on from {short} meanwhile; run it again: only what changed is done anew")
