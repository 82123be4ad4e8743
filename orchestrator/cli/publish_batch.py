"""What a batch's `[publish]` asks for beyond a local branch, once the batch has ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..batch.spec import Publish
from ..client import Muster
from ..errors import BadInput
from ..publication.changes import changes_of
from ..publication.told import UNPROVED
from .console import note
from .publish_forms import Job, publish_change
from .publish_told import require_published
from .summary import print_lines


async def publish_batch(muster: Muster, task_id: str, asked: Publish, folders: Mapping[str, Path]) -> None:
    """Every repository's change that may go; `NotPublished` at the end for those that could not.

    What is not verified stays here, which is a line and no failure of its own.
    """
    try:
        changes = await changes_of(muster, task_id)
    except BadInput as e:  # nothing was changed: the batch itself is no failure for that
        note(e.message)
        return
    publisher = muster.publications.publisher
    told = [
        await publish_change(Job(muster, publisher, change, asked, asked.branch, folders.get(change.repository)))
        for change in changes
    ]
    print_lines(each.line() for each in told)
    require_published(each for each in told if each.stage != UNPROVED)
