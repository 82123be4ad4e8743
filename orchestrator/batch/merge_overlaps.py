"""Which patches of a batch that is still at work will meet: from those of its shards that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envelope.events import ChildSpawned
from envelope.messages import TaskRequest
from repo.merge_sides import Changeset
from repo.predict import predict

from ..client import Muster
from ..driver import completed
from ..repositories import as_changeset, fetch_mirror
from ..submit import VERIFY, RepositoryInput, params_of
from .merge import overlaps_in
from .report import OverlapReport
from .request import BatchParams


async def foreseen(muster: Muster, request: TaskRequest, folder: Path) -> Mapping[str, tuple[OverlapReport, ...]]:
    """By the name of the repository. `folder`: where mirrors may be unpacked."""
    spawned = [
        event
        for entry in await muster.events(request.trace_id)
        for event in getattr(entry.message, "events", ())
        if isinstance(event, ChildSpawned) and event.agent != VERIFY
    ]
    found: dict[str, tuple[OverlapReport, ...]] = {}
    for given in params_of(BatchParams, request).repositories:
        patches = [patch for event in spawned if (patch := await _patch(muster, event, given)) is not None]
        mirror = await fetch_mirror(muster.transport.blobs, folder, bundle_ref=given.bundle, base=given.base)
        latest = {patch.key: patch for patch in patches}  # a shard that was repeated has several
        found[given.name] = overlaps_in(await predict(mirror, given.base, list(latest.values())))
    return found


async def _patch(muster: Muster, event: ChildSpawned, given: RepositoryInput) -> Changeset | None:
    result = await muster.result(event.child_task_id)
    if result is None or not completed(result) or result.patch is None or not result.patch.files:
        return None
    workspace = (await muster.request(event.child_task_id)).workspace
    if workspace is None or workspace.bundle != given.bundle or result.patch.base != given.base:
        return None
    return await as_changeset(muster.transport.blobs, event.title, event.title, result.patch)
