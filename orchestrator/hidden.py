"""A gate's hidden tests: they are put in only where the gate runs, and take the place of what an agent wrote there."""

from __future__ import annotations

from dataclasses import dataclass

from envelope.ids import BlobRef
from repo.cover import carried_over

from .driver import Driver
from .errors import BadInput
from .submit import HiddenTests


@dataclass(frozen=True, slots=True)
class Judged:
    """What a gate is run on: its base with `diff`, which is `tree`."""

    diff: BlobRef
    tree: str


async def behind(driver: Driver, hidden: HiddenTests, diff: BlobRef) -> Judged | None:
    """An agent's change as one of the commit that has the tests; None when nothing is left of it there."""
    workspace = driver.request.workspace
    if workspace is None or workspace.bundle is None:
        raise BadInput("hidden tests need a repository that is packed", hint="name it by a path")
    blobs = driver.transport.blobs
    mirror = await driver.mirror(hidden.bundle, hidden.base)
    patch = await carried_over(mirror, workspace.base, hidden.base, await blobs.get(diff))
    return None if patch.empty else Judged(await blobs.put(patch.diff), patch.tree)
