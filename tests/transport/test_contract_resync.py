"""What every transport promises to readers of a stream whose beginning is gone. Against each implementation."""

from __future__ import annotations

import asyncio

import pytest

from envelope.events import ChildSpawned, Resynced, TextDelta
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry
from transport.limits import Limits

# A server may trim in pages: by far more than it keeps, so that there is surely something to miss.
KEPT, WRITTEN = 10, 500


async def collect(entries) -> list[Entry]:
    """All entries; far fewer than a reader gets that is resynced again and again."""
    seen: list[Entry] = []
    async for entry in entries:
        seen.append(entry)
        assert len(seen) < 10 * WRITTEN
    return seen


def is_resync(entry: Entry) -> bool:
    return isinstance(entry.message, TaskProgress) and Resynced() in entry.message.events


@pytest.fixture
async def forgetful(make_fleet):
    return await make_fleet(Limits(max_entries=KEPT))


async def write(fleet, claim, first: int, last: int) -> None:
    for number in range(first, last):
        await fleet.transport.emit(claim.lease, fleet.progress(claim, str(number)))


def texts(entries: list[Entry]) -> list[int]:
    return [
        int(event.text)
        for entry in entries
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if isinstance(event, TextDelta)
    ]


async def test_a_reader_of_a_whole_stream_gets_no_snapshot(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await write(fleet, claim, 0, 20)
    await fleet.finish(claim)

    assert not any(map(is_resync, await collect(fleet.transport.follow(request.trace_id))))


async def test_who_comes_late_is_told_where_every_task_is_and_then_what_is_kept(forgetful):
    fleet = forgetful
    root = await fleet.submit()
    claim = await fleet.claim_one("w1")
    ended, queued = fleet.child(root, intent="look"), fleet.child(root)
    await fleet.transport.submit([ended, queued])
    await fleet.finish(await fleet.claim_one("w2"), "found")
    await write(fleet, claim, 0, WRITTEN)
    await fleet.finish(claim)

    entries = await collect(fleet.transport.follow(root.trace_id))

    snapshot = [entry.message for entry in entries if is_resync(entry)]
    assert [(message.task_id, message.status) for message in snapshot] == [
        (root.task_id, State.COMPLETED),
        (ended.task_id, State.COMPLETED),
        (queued.task_id, State.CANCELLED),
    ]
    spawned = [event for event in snapshot[0].events if isinstance(event, ChildSpawned)]
    assert [event.child_task_id for event in spawned] == [ended.task_id, queued.task_id]
    results = {entry.message.task_id: entry.message for entry in entries if isinstance(entry.message, TaskResult)}
    assert results[ended.task_id].output.text == "found"
    kept = texts(entries)
    assert kept[0] > 0  # else nothing was missed
    assert kept == list(range(kept[0], WRITTEN))
    assert entries[-1].message.task_id == root.task_id
    assert isinstance(entries[-1].message, TaskResult)


async def test_a_reader_resumes_after_the_snapshot_with_all_that_is_kept(forgetful):
    fleet = forgetful
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await write(fleet, claim, 0, WRITTEN)
    await fleet.finish(claim)
    entries = await collect(fleet.transport.follow(request.trace_id))
    first_kept = next(at for at, entry in enumerate(entries) if texts([entry]))

    rest = await collect(fleet.transport.follow(request.trace_id, after=entries[first_kept - 1].id))

    assert texts(rest) == texts(entries)


async def test_who_was_cut_off_in_the_middle_of_a_snapshot_gets_it_again(forgetful):
    fleet = forgetful
    root = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.submit([fleet.child(root) for _ in range(3)])
    await write(fleet, claim, 0, WRITTEN)
    cut_off = await anext(fleet.transport.follow(root.trace_id))
    await fleet.finish(claim)

    entries = await collect(fleet.transport.follow(root.trace_id, after=cut_off.id))

    told = {entry.message.task_id for entry in entries if is_resync(entry)}
    assert told == {record.task_id for record in await fleet.transport.tasks(trace_id=root.trace_id)}


async def test_a_reader_that_falls_behind_is_resynced_and_loses_no_end(forgetful):
    """It stops after the first entry until the writer has gone far ahead."""
    fleet = forgetful
    request = await fleet.submit()
    claim = await fleet.claim_one()
    stream = fleet.transport.follow(request.trace_id)
    seen = [await anext(stream)]
    await write(fleet, claim, 0, 2 * WRITTEN)  # more than any page that it may have read already
    await fleet.finish(claim)

    async with asyncio.timeout(20):
        seen += await collect(stream)

    assert isinstance(seen[-1].message, TaskResult)
    assert any(map(is_resync, seen))
    ids = [entry.id for entry in seen]
    assert ids == sorted(ids, key=lambda entry_id: tuple(map(int, f"{entry_id}-0".split("-")[:2])))


async def test_a_reader_may_rest_on_the_last_entry_that_is_not_kept(forgetful):
    fleet = forgetful
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await write(fleet, claim, 0, 5)
    entries = [entry async for entry in first(fleet, request.trace_id, 7)]
    await write(fleet, claim, 5, WRITTEN)
    await fleet.finish(claim)

    rest = await collect(fleet.transport.follow(request.trace_id, after=entries[-1].id))

    assert is_resync(rest[0])
    assert texts(rest)[-1] == WRITTEN - 1


async def first(fleet, trace_id: str, count: int):
    async for entry in fleet.transport.follow(trace_id):
        yield entry
        count -= 1
        if not count:
            return


async def test_who_follows_one_task_gets_its_snapshot_alone(forgetful):
    root = await forgetful.submit()
    claim = await forgetful.claim_one()
    [mine, _] = children = [forgetful.child(root) for _ in range(2)]
    await forgetful.transport.submit(children, under=claim.lease)
    await write(forgetful, claim, 0, WRITTEN)

    entries = await collect(forgetful.transport.follow(root.trace_id, wait=False, about=mine.task_id))

    assert [(entry.message.task_id, is_resync(entry)) for entry in entries] == [
        (root.task_id, True),
        (mine.task_id, True),
    ]
    seen = entries[-1].id
    assert await collect(forgetful.transport.follow(root.trace_id, wait=False, after=seen, about=mine.task_id)) == []
