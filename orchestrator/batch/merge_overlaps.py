"""Which patches of a batch that is still at work will meet: from those of its shards that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envelope.events import ChildSpawned
from envelope.messages import TaskRequest
from repo.errors import PatchRefused
from repo.merge_sides import Changeset
from repo.mirror import Mirror
from repo.patch import apply_to_tree, patch_between
from repo.predict import predict

from ..driver import completed
from ..records import Records
from ..repositories import as_changeset, fetch_mirror
from ..submit import VERIFY, RepositoryInput, params_of
from .merge import overlaps_in
from .report import OverlapReport
from .request import BatchParams
from .stages import SHARD


async def foreseen(muster: Records, request: TaskRequest, folder: Path) -> Mapping[str, tuple[OverlapReport, ...]]:
    """By the name of the repository. `folder`: where mirrors may be unpacked."""
    spawned = [
        event
        for entry in await muster.events(request.trace_id)
        for event in getattr(entry.message, "events", ())
        if isinstance(event, ChildSpawned) and event.agent != VERIFY
    ]
    found: dict[str, tuple[OverlapReport, ...]] = {}
    for given in params_of(BatchParams, request).repositories:
        mirror = await fetch_mirror(muster.transport.blobs, folder, bundle_ref=given.bundle, base=given.base)
        patches = [patch for event in spawned if (patch := await _patch(muster, mirror, event, given)) is not None]
        latest = {patch.key: patch for patch in patches}  # a shard that was repeated, or has several steps
        found[given.name] = overlaps_in(await predict(mirror, given.base, list(latest.values())))
    return found


async def _patch(muster: Records, mirror: Mirror, event: ChildSpawned, given: RepositoryInput) -> Changeset | None:
    """All that a shard has changed up to this task of it; None where that is nothing, or no shard's task."""
    task, result = await muster.request(event.child_task_id), await muster.result(event.child_task_id)
    where, blobs = task.workspace, muster.transport.blobs
    if (
        not task.intent.startswith(f"{SHARD} ")
        or where is None
        or (where.bundle, where.base) != (given.bundle, given.base)
    ):
        return None
    if result is None or not completed(result) or result.patch is None or not result.patch.files:
        return None
    if where.changes is None:
        return await as_changeset(blobs, event.title, event.title, result.patch)
    tree = given.base
    try:
        for diff in (where.changes, result.patch.diff):
            tree = await apply_to_tree(mirror.git_dir, tree, await blobs.get(diff))
    except PatchRefused:  # its shard fails for it
        return None
    whole = await patch_between(mirror, given.base, tree)
    return Changeset(event.title, whole.diff, event.title, whole.files)
