"""A change without what its agent had no right to edit.

A worker ends a task with such a change as an error, of which nothing comes here. This is for one that does not check.
"""

from __future__ import annotations

from envelope.messages import PatchRef
from envelope.scope import allows

from ..driver import Driver
from .diff import parts_of, without


async def within_scope(driver: Driver, patch: PatchRef | None) -> tuple[PatchRef | None, tuple[str, ...]]:
    """The patch as far as the goal's scope allows it (None: nothing is left), and the paths that stay as they were."""
    if patch is None or not patch.files:
        return None, ()
    scope, blobs = driver.request.auth_scope, driver.transport.blobs
    whole = await blobs.get(patch.diff)
    diff, out = await driver.aside(
        lambda: without(whole, lambda part: not all(allows(scope, "edit", path) for path in part.paths))
    )
    if not out:
        return patch, ()
    paths = {path for part in out for path in part.paths}
    kept = tuple(file for file in patch.files if file.path not in paths)
    added, removed = await driver.aside(
        lambda: [sum(len(part.lines(sign)) for part in parts_of(diff)) for sign in (b"+", b"-")]
    )
    # the tree was that of the whole; nobody knows the new one until it is committed
    less = {"diff": await blobs.put(diff), "files": kept, "tree": "", "added": added, "removed": removed}
    return (patch.model_copy(update=less) if kept else None), tuple(sorted(paths))
