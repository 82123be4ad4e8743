"""Following a batch across the traces of its shards, over the transport itself."""

from __future__ import annotations

import asyncio

import pytest

from envelope.events import ChildEnded, ChildSpawned, TurnStarted
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from orchestrator.client import Muster
from orchestrator.session.fold import Session
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from orchestrator.watch import MAX_SHARDS, watch
from transport.base import Claim, Handle
from transport.errors import Unreachable
from transport.keyring import fresh
from transport.memory import MemoryTransport

SHARDS = MAX_SHARDS + 8
HOUR_MS = 3_600_000


class Stage:
    """A driver and its shards, played by hand."""

    def __init__(self) -> None:
        self.transport = MemoryTransport(keyring=fresh())
        self.muster = Muster(self.transport, Settings())

    async def submit(self, agent: str, pool: str) -> tuple[Handle, Claim]:
        handle = await self.muster.submit(task_request(agent=agent, pool=pool, auth_scope=(), deadline_ms=HOUR_MS))
        (claim,) = await self.transport.claim(pool, "player", slots=1, wait_s=5)
        return handle, claim

    async def tell(self, claim: Claim, *events) -> None:
        lease = claim.lease
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        progress = TaskProgress(**said, seq=0, at_ms=0, status=State.RUNNING, events=events)
        await self.transport.emit(lease, progress)

    async def finish(self, claim: Claim) -> None:
        lease = claim.lease
        said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        await self.transport.finish(lease, TaskResult(**said, status=State.COMPLETED))


async def test_more_shards_than_can_be_followed_at_once_are_all_seen_to_their_end():
    stage = Stage()
    root, driver = await stage.submit("batch", "orchestrator")
    shards = [await stage.submit("recipe", "build") for _ in range(SHARDS)]
    seen: set[str] = set()
    all_seen = asyncio.Event()

    def show(view, entry) -> None:
        seen.update(task.task_id for task in view.tasks.values() if task.turn)
        if len(seen) >= MAX_SHARDS:
            all_seen.set()

    watching = asyncio.create_task(watch(stage.muster, Session.of(root.task_id, root.trace_id), show))
    spawned = (ChildSpawned(child_task_id=h.task_id, agent="recipe", trace_id=h.trace_id) for h, _ in shards)
    await stage.tell(driver, *spawned)
    for _, shard in shards:
        await stage.tell(shard, TurnStarted(turn=1))
    async with asyncio.timeout(60):
        await all_seen.wait()
    assert len(seen) == MAX_SHARDS  # the others wait for a place
    for handle, shard in shards:
        await stage.finish(shard)
        await stage.tell(driver, ChildEnded(child_task_id=handle.task_id, state=State.COMPLETED))
    await stage.finish(driver)

    async with asyncio.timeout(60):
        view = await watching
    assert view.root_task.result is not None
    assert all(view.tasks[handle.task_id].state is State.COMPLETED for handle, _ in shards)


async def test_a_shared_shard_brings_nothing_of_its_other_owner():
    stage = Stage()
    root, driver = await stage.submit("batch", "orchestrator")
    other, other_driver = await stage.submit("batch", "orchestrator")
    shared = ChildSpawned(child_task_id=root.task_id, agent="verify", trace_id=other.trace_id)
    await stage.tell(other_driver, TurnStarted(turn=7))
    await stage.tell(driver, shared.model_copy(update={"child_task_id": _gate_of(other)}))
    await stage.finish(driver)

    view = await watch(stage.muster, Session.of(root.task_id, root.trace_id), lambda *_: None)

    assert other.task_id not in view.tasks


async def test_a_gate_that_began_before_its_driver_could_tell_of_it_is_seen_to_begin():
    stage = Stage()
    root, driver = await stage.submit("batch", "orchestrator")
    parent = await stage.muster.request(root.task_id)
    gate = await stage.muster.submit(
        task_request(parent=parent, agent="verify", pool="build", auth_scope=(), deadline_ms=HOUR_MS)
    )
    await stage.transport.claim("build", "player", slots=1, wait_s=5)
    await stage.tell(driver, ChildSpawned(child_task_id=gate.task_id, agent="verify", trace_id=gate.trace_id))
    await stage.finish(driver)
    told: list[str] = []

    await watch(
        stage.muster, Session.of(root.task_id, root.trace_id), lambda _, entry: told.append(entry.message.task_id)
    )

    assert gate.task_id in told


def _gate_of(other: Handle) -> str:
    return other.task_id[:-1] + ("0" if other.task_id[-1] != "0" else "1")


async def test_a_stream_that_cannot_be_read_is_an_error_and_not_an_end():
    stage = Stage()
    root, _ = await stage.submit("batch", "orchestrator")

    async def broken(trace_id, *, after="0", wait=True):
        raise Unreachable("gone")
        yield

    stage.transport.follow = broken
    with pytest.raises(Unreachable):
        await watch(stage.muster, Session.of(root.task_id, root.trace_id), lambda *_: None)
