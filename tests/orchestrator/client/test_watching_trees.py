"""Trees that are watched while others look at them: each change is told, however many trees there are."""

from __future__ import annotations

import asyncio
import doctest

from envelope.events import TitleSet
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator import lru
from orchestrator.session import kept
from orchestrator.session.kept import Folds

FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": ("read:**",)}


async def begun(stage, prompt: str):
    await stage.muster.submit(prompt=prompt, **FIELDS)
    [claim] = await stage.transport.claim("build", "w", slots=1, wait_s=5)
    return claim.lease


async def tell(stage, lease, title: str) -> None:
    names = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt, "seq": 0}
    progress = TaskProgress(**names, at_ms=1, status=State.RUNNING, events=(TitleSet(title=title),))
    await stage.transport.emit(lease, progress)


async def test_what_another_reader_folds_first_is_told_all_the_same(any_stage):
    lease, folds = await begun(any_stage, "go"), Folds(any_stage.transport)
    watching = folds.watch(lease.trace_id)
    await anext(watching)

    await tell(any_stage, lease, "news")
    assert (await folds.of(lease.trace_id)).root_task.title == "news"

    async with asyncio.timeout(60):
        session, changed = await anext(watching)
    assert changed == {lease.task_id} and session.root_task.title == "news"
    await watching.aclose()


async def test_more_trees_are_watched_at_once_than_are_kept(any_stage, monkeypatch):
    monkeypatch.setattr(kept, "KEPT_TRACES", 1)
    leases = [await begun(any_stage, f"go {number}") for number in range(5)]
    folds = Folds(any_stage.transport)
    watching = [folds.watch(lease.trace_id) for lease in leases]
    async with asyncio.timeout(60):
        await asyncio.gather(*map(anext, watching))
        for number, lease in enumerate(leases):
            await tell(any_stage, lease, f"news {number}")
        told = [await anext(one) for one in watching]
    assert [session.root_task.title for session, _ in told] == [f"news {number}" for number in range(5)]
    for one in watching:
        await one.aclose()


def test_of_what_is_kept_the_least_recently_used_goes_first():
    assert doctest.testmod(lru) == (0, 2)
