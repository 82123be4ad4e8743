"""What became of published changes: the book of this machine is looked at, and what has changed in it is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from ..publication.book import Book, Stage
from .counting import OrchestratorMetrics

PLAIN_GIT = "git"  # a remote without a forge


class Published:
    """What the book held at the first look is known, and not counted."""

    def __init__(self, folder: Path, metrics: OrchestratorMetrics) -> None:
        self._book = Book(folder)
        self._metrics = metrics
        self._seen: dict[str, tuple[Stage, str]] | None = None

    async def look(self) -> None:
        """Count what changed since the last look, and tell how many stand where."""
        found = await asyncio.to_thread(self._book.all)
        now = {each.key: (each.stage, each.commit) for each in found}
        seen = now if self._seen is None else self._seen
        for each in found:
            if seen.get(each.key) != now[each.key]:
                self._metrics.count_publication(each.forge or PLAIN_GIT, each.stage)
        self._seen = now
        states = Counter(each.stage for each in found)
        self._metrics.shown.tell("changesets", {(stage,): states[stage] for stage in Stage})
