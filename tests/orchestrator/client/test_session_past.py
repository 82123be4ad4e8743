"""A task's past: any step of it is as it was, however long it is and whatever is no longer kept of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from envelope.events import CallState, ChildEnded, TextDelta, TitleSet, ToolCallChanged, TurnStarted
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from orchestrator.session import past as pasts_module
from orchestrator.session import transcript
from orchestrator.session.past import Moment, Pasts
from orchestrator.session.said import doing_with
from orchestrator.submit import task_request
from transport.base import Entry, Lease
from transport.limits import Limits
from transport.memory.transport import MemoryTransport

POOL, STEPS, CHILDREN = "build", 150, 3
COMMON = {"agent": "build", "pool": POOL, "auth_scope": (), "deadline_ms": 600_000}


class Played:
    """A task with children in the hands of a test; `read` counts the entries that were read of its trace."""

    def __init__(self, transport) -> None:
        self.transport, self.seq, self.read = transport, itertools.count(), 0
        self.pasts = Pasts(self)  # pyright: ignore[reportArgumentType]

    async def begun(self) -> Played:
        root = task_request(prompt="go", **COMMON)
        await self.transport.submit([root])
        self.lease = await self.claim()
        self.children = [task_request(parent=root, prompt=f"child {n}", **COMMON) for n in range(CHILDREN)]
        await self.transport.submit(self.children, under=self.lease)
        return self

    async def claim(self) -> Lease:
        [claim] = await self.transport.claim(POOL, "w", slots=1, wait_s=5)
        return claim.lease

    async def tell(self, *events, lease: Lease | None = None) -> None:
        of = lease or self.lease
        names = {"trace_id": of.trace_id, "task_id": of.task_id, "attempt": of.attempt, "seq": next(self.seq)}
        now_ms = await self.transport.now_ms()
        await self.transport.emit(of, TaskProgress(**names, at_ms=now_ms, status=State.RUNNING, events=events))

    async def finish(self) -> None:
        names = {"trace_id": self.lease.trace_id, "task_id": self.lease.task_id, "attempt": self.lease.attempt}
        await self.transport.finish(self.lease, TaskResult(**names, status=State.COMPLETED))

    async def record(self):
        return await self.transport.record(self.lease.task_id)

    def follow(self, trace_id: str, **options) -> AsyncIterator[Entry]:
        async def counted() -> AsyncIterator[Entry]:
            async for entry in self.transport.follow(trace_id, **options):
                self.read += 1
                yield entry

        return counted()


def event_of(number: int, children: list[str]):
    """Something different at each step; now and then a child ends."""
    if number % 50 == 25:
        return ChildEnded(child_task_id=children[number // 50], state=State.COMPLETED, cost_microusd=5)
    if number % 10 == 0:
        return TurnStarted(turn=number // 10 + 1, model=f"m{number}")
    if number % 10 == 5:
        return TitleSet(title=f"at {number}")
    return ToolCallChanged(call_id=str(number), tool="bash", state=CallState.COMPLETED, output=f"it says {number}")


@pytest.fixture
async def played(any_stage, monkeypatch) -> Played:
    """With a past of many steps, of which few are shown."""
    monkeypatch.setattr(pasts_module, "SHOWN_STEPS", 20)
    monkeypatch.setattr(pasts_module, "FIRST_APART", 3)
    monkeypatch.setattr(pasts_module, "MAX_PLACES", 8)
    made = await Played(any_stage.transport).begun()
    other = await made.claim()
    for number in range(STEPS):
        await made.tell(event_of(number, [child.task_id for child in made.children]))
        await made.tell(TextDelta(text=f"another's {number}"), lease=other)
    return made


async def test_each_step_is_as_it_was_and_few_are_read_for_it(played):
    record = await played.record()
    entries = [entry async for entry in played.transport.follow(record.trace_id, wait=False)]
    past = await played.pasts.of(record)
    as_it_was = Moment.before(record)

    for entry in entries:
        if entry.message.task_id != record.task_id:
            continue
        as_it_was.take(entry)
        if as_it_was.steps % 7 not in (0, 1):
            continue
        played.read = 0
        _, seen = await played.pasts.at(record, as_it_was.steps)
        assert played.read < 75, "its own steps that are shown, and those from the place before them"
        assert (seen.steps, seen.task) == (as_it_was.steps, as_it_was.task)
        assert doing_with(seen.session, seen.task) == doing_with(as_it_was.session, as_it_was.task)
        shown, were = list(seen.transcript.blocks.items()), list(as_it_was.transcript.blocks.items())
        assert shown[-10:] == were[-10:]
        assert seen.transcript.count == as_it_was.transcript.count
    assert as_it_was.steps == past.now.steps > STEPS


async def test_who_looks_again_pays_for_what_has_happened_since(played):
    record = await played.record()
    before = (await played.pasts.of(record)).now.copy()
    played.read = 0
    await played.tell(TitleSet(title="news"))
    past = await played.pasts.of(record)

    assert (played.read, past.now.steps, past.now.task.title) == (1, before.steps + 1, "news")
    assert before.task.title != "news", "a copy stays as it was"
    await played.finish()
    assert (await played.pasts.of(record)).life.result is not None
    played.read = 0
    await played.pasts.of(record)
    assert played.read == 0, "nothing comes after a result"


async def test_a_step_that_is_no_longer_kept_is_the_first_that_is(monkeypatch):
    monkeypatch.setattr(pasts_module, "FIRST_APART", 5)
    monkeypatch.setattr(pasts_module, "SHOWN_STEPS", 10)
    played = await Played(MemoryTransport(limits=Limits(max_entries=40))).begun()
    record = await played.record()
    for number in range(30):
        await played.tell(ToolCallChanged(call_id=str(number), tool="bash", state=CallState.COMPLETED))
    whole, seen = await played.pasts.at(record, 20)
    assert whole.life.whole and seen.steps == 20
    for number in range(30, 90):
        await played.tell(ToolCallChanged(call_id=str(number), tool="bash", state=CallState.COMPLETED))
        if number % 20 == 0:  # somebody looks now and then, and is never cut off
            assert (await played.pasts.of(record)).life.whole

    cut, seen = await played.pasts.at(record, 3)

    assert not cut.life.whole and cut.now.steps < 50
    assert seen.steps == 3
    [first, *_] = seen.transcript.blocks.values()
    assert first.head == "earlier events are no longer kept"
    again, seen = await played.pasts.at(record, cut.now.steps)
    assert again is cut
    shown, are = list(seen.transcript.blocks.items()), list(cut.now.transcript.blocks.items())
    assert shown == are[-len(shown) :] and len(shown) >= 10


async def test_a_transcript_holds_so_much_text_whatever_is_written(played, monkeypatch):
    monkeypatch.setattr(transcript, "MAX_CHARS", 2_000)
    for number in range(20):
        call = {"call_id": f"long{number}", "tool": "bash", "output": "x" * 500}
        await played.tell(ToolCallChanged(**call, state=CallState.COMPLETED, title=str(number)))

    past = await played.pasts.of(await played.record())

    blocks = list(past.now.transcript.blocks.values())
    assert [block.head for block in blocks] == ["bash 17", "bash 18", "bash 19"]
    assert past.now.transcript.count > 150
