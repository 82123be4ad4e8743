"""The fold: streams that are interleaved, repeated, or cut and resumed give the same view."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Metrics, Usage
from envelope.events import (
    AskAnswered,
    AskOpened,
    BudgetReached,
    CallState,
    ChildEnded,
    ChildSpawned,
    FileChanged,
    GateVerdict,
    MergeStep,
    Resynced,
    StateChanged,
    TitleSet,
    Todo,
    TodoUpdated,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
    WarningRaised,
)
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskProgress, TaskResult
from orchestrator.session.fold import Session, apply, apply_all
from orchestrator.session.task import Spent
from transport.base import Entry

TRACE, SHARD_TRACE = new_trace_id(), new_trace_id()
ROOT, CHILD, SHARD, BUSY, GONE = (new_task_id() for _ in range(5))
TRACE_OF = {ROOT: TRACE, CHILD: TRACE, SHARD: SHARD_TRACE, BUSY: TRACE}


def progress(task_id: str, *events, attempt: int = 1, at_ms: int = 0) -> TaskProgress:
    return TaskProgress(
        trace_id=TRACE_OF[task_id],
        task_id=task_id,
        attempt=attempt,
        seq=0,
        at_ms=at_ms,
        status=State.RUNNING,
        events=events,
    )


def result(task_id: str, *, attempt: int = 1, status: State = State.COMPLETED, **fields) -> TaskResult:
    trace_id = TRACE_OF[task_id]
    return TaskResult(trace_id=trace_id, task_id=task_id, attempt=attempt, status=status, **fields)


def call(state: CallState, call_id: str = "c1") -> ToolCallChanged:
    return ToolCallChanged(call_id=call_id, tool="grep", state=state, title="look")


def asked(ask_id: str) -> AskOpened:
    return AskOpened(ask_id=ask_id, permission="bash", question=f"{ask_id}?")


SPENT = Usage(input_tokens=10, output_tokens=2)
STORIES = {
    ROOT: [
        progress(ROOT, StateChanged(state=State.RUNNING, worker="o1"), at_ms=100),
        progress(ROOT, ChildSpawned(child_task_id=CHILD, agent="explore", title="where?")),
        progress(ROOT, ChildSpawned(child_task_id=SHARD, agent="recipe", title="src/a.py", trace_id=SHARD_TRACE)),
        progress(ROOT, ChildSpawned(child_task_id=GONE, agent="explore", title="of which nothing was heard")),
        progress(ROOT, MergeStep(key="lost with attempt 1", outcome="applied")),
        progress(ROOT, StateChanged(state=State.RUNNING, worker="o2"), attempt=2),
        progress(ROOT, ChildEnded(child_task_id=CHILD, state=State.COMPLETED, cost_microusd=7), attempt=2),
        progress(ROOT, ChildEnded(child_task_id=SHARD, state=State.COMPLETED, reused=True), attempt=2),
        progress(ROOT, ChildEnded(child_task_id=GONE, state=State.EXPIRED), attempt=2),
        progress(ROOT, MergeStep(key="src/a.py", outcome="applied"), attempt=2),
        progress(ROOT, GateVerdict(phase="after", passed=True, tests=2), WarningRaised(message="slow"), attempt=2),
        result(ROOT, attempt=2, metrics=Metrics(latency_ms=900)),
    ],
    CHILD: [
        progress(CHILD, StateChanged(state=State.RUNNING, worker="w1"), TurnStarted(turn=1), at_ms=200),
        progress(CHILD, call(CallState.PENDING), call(CallState.RUNNING), UnknownEvent(kind="from the future")),
        progress(CHILD, call(CallState.COMPLETED), TitleSet(title="found it")),
        progress(CHILD, TurnFinished(turn=1, finish_reason="stop", usage=SPENT, cost_microusd=7)),
        result(CHILD, metrics=Metrics(usage=SPENT, cost_microusd=7, latency_ms=50, turns=3, tool_calls=1)),
        progress(CHILD, TitleSet(title="too late")),
    ],
    BUSY: [  # a second attempt, which has not ended
        progress(BUSY, TurnStarted(turn=1, model="a/model"), call(CallState.RUNNING, "lost"), asked("lost"), at_ms=400),
        progress(BUSY, TurnFinished(turn=1, finish_reason="tool_calls", usage=SPENT, cost_microusd=5)),
        progress(BUSY, BudgetReached(limit="turns", spent=1, allowed=1)),
        progress(BUSY, StateChanged(state=State.RUNNING, worker="w3"), attempt=2),
        progress(
            BUSY, TurnStarted(turn=2), asked("one"), asked("two"), FileChanged(path="a.py", status="A"), attempt=2
        ),
        progress(BUSY, TitleSet(title="of an attempt that is over"), TurnStarted(turn=9)),
        progress(BUSY, FileChanged(path="b.py"), AskAnswered(ask_id="two", answer="once"), attempt=2),
        progress(BUSY, TurnFinished(turn=2, finish_reason="stop", usage=SPENT, cost_microusd=6), attempt=2),
        progress(BUSY, call(CallState.RUNNING, "now"), attempt=2),
    ],
    SHARD: [
        progress(SHARD, StateChanged(state=State.RUNNING, worker="w2"), at_ms=300),
        result(SHARD, metrics=Metrics(latency_ms=20)),
    ],
}


ENTRIES = sum(map(len, STORIES.values()))


def test_what_two_tasks_warn_of_is_told_once():
    warning = WarningRaised(message="broken.md: mode")
    view = Session.of(ROOT, TRACE)

    apply_all(view, [Entry(id=f"{n}-0", message=progress(task, warning)) for n, task in enumerate((ROOT, CHILD), 1)])

    assert view.warnings == (warning,)


def interleaved(order: random.Random) -> list[Entry]:
    """All stories told at once; ids count up in each trace, as a stream's do."""
    left = {task_id: list(story) for task_id, story in STORIES.items()}
    entries: list[Entry] = []
    counts = {TRACE: 0, SHARD_TRACE: 0}
    while any(left.values()):
        message = left[order.choice([task_id for task_id in left if left[task_id]])].pop(0)
        counts[message.trace_id] += 1
        entries.append(Entry(f"1700000000000-{counts[message.trace_id]}", message))
    return entries


def without_places(session: Session) -> Session:
    return replace(session, places={})


def start() -> Session:
    return Session.of(ROOT, TRACE, agent="batch", title="modernise")


PLAIN = apply_all(start(), interleaved(random.Random(1)))


@given(st.randoms(use_true_random=False))
def test_however_tasks_are_interleaved_the_session_is_the_same(order):
    assert without_places(apply_all(start(), interleaved(order))) == without_places(PLAIN)


@given(st.randoms(use_true_random=False), st.data())
def test_entries_that_come_again_change_nothing(order, data):
    entries = interleaved(order)
    view = start()
    for place, entry in enumerate(entries):
        assert apply(view, entry)
        before = view.snapshot()
        assert not apply(view, entries[data.draw(st.integers(0, place))])
        assert view.snapshot() == before


@given(st.randoms(use_true_random=False), st.integers(0, ENTRIES))
def test_a_reader_that_was_cut_off_resumes_after_its_cursor(order, cut):
    entries = interleaved(order)
    before = apply_all(start(), entries[:cut])

    def unread(entry: Entry) -> bool:
        seen = before.cursor(entry.message.trace_id)
        return int(entry.id.split("-")[1]) > (int(seen.split("-")[1]) if seen != "0" else 0)

    assert apply_all(before, [entry for entry in entries if unread(entry)]) == apply_all(start(), entries)


def test_the_tree_shows_who_did_what():
    root, child, shard = (PLAIN.tasks[task_id] for task_id in (ROOT, CHILD, SHARD))

    assert root.children == (CHILD, SHARD, GONE)
    assert (root.agent, root.title, root.state, root.worker) == ("batch", "modernise", State.COMPLETED, "o2")
    assert (child.agent, child.title, child.parent, child.turn, child.tool_calls) == ("explore", "found it", ROOT, 3, 1)
    assert (shard.trace_id, shard.reused, shard.title) == (SHARD_TRACE, True, "src/a.py")
    assert (child.started_at_ms, child.ended_at_ms) == (200, 250)
    assert PLAIN.cost_microusd == 7 + 5 + 6
    assert PLAIN.usage == SPENT + SPENT + SPENT
    assert (PLAIN.tasks[GONE].state, PLAIN.tasks[GONE].parent) == (State.EXPIRED, ROOT)


def test_of_a_second_attempt_nothing_is_seen_that_was_lost_with_the_first():
    busy = PLAIN.tasks[BUSY]

    assert (busy.attempt, busy.turn, busy.title, busy.worker, busy.started_at_ms) == (2, 2, "", "w3", 400)
    assert (list(busy.running_tools), busy.asks, busy.stopped_by) == (["now"], {"one": "one?"}, None)
    assert busy.by_model == {"a/model": Spent(SPENT + SPENT, 5 + 6)}
    assert busy.files == {"a.py": "A", "b.py": "M"}


def test_a_snapshot_ends_what_was_under_way_and_says_not_when_a_task_began():
    heard = [progress(CHILD, call(CallState.RUNNING), asked("old")), resync(CHILD, State.RUNNING)]
    view = apply_all(start(), [Entry(f"{number}-0", message) for number, message in enumerate(heard, 1)])
    late = apply_all(start(), [Entry("0", resync(ROOT, State.RUNNING))])

    assert (view.tasks[CHILD].running_tools, view.tasks[CHILD].asks) == ({}, {})
    assert (late.root_task.state, late.root_task.started_at_ms) == (State.RUNNING, None)


def test_a_driver_that_runs_again_merges_anew():
    assert [step.key for step in PLAIN.merges] == ["src/a.py"]


def test_a_call_is_current_from_its_start_to_its_end():
    view = start()
    seen = []
    for number, message in enumerate(STORIES[CHILD], 1):
        apply(view, Entry(f"1-{number}", message))
        seen.append(view.tasks[CHILD].current_tool is not None)

    assert seen == [False, True, False, False, False, False]


def test_what_is_spent_shows_before_the_task_ends():
    entries = [Entry(f"1-{number}", message) for number, message in enumerate(STORIES[CHILD][:-1], 1)]

    assert apply_all(start(), entries).cost_microusd == 7


def test_ids_sort_as_numbers():
    late = Entry("1700000000000-10", progress(ROOT, TitleSet(title="tenth")))
    view = apply_all(start(), [Entry("1700000000000-9", progress(ROOT, TitleSet(title="ninth"))), late])

    assert view.root_task.title == "tenth"


def test_an_error_shows_its_sentence_and_its_hint():
    error = ErrorInfo.of("gate_failed", "the gate fails", "see the logs")
    view = apply_all(start(), [Entry("1-1", result(ROOT, status=State.ERROR, errors=(error,)))])

    assert (view.root_task.error, view.root_task.hint) == ("the gate fails", "see the logs")


def queue_says(task_id: str, state: State, reason: str = "", *events, attempt: int = 1) -> TaskProgress:
    said = progress(task_id, *events, StateChanged(state=state, reason=reason), attempt=attempt)
    return said.model_copy(update={"status": state, "seq": -1})


def test_a_task_shows_what_it_waits_for_and_why_it_is_pending_again():
    said = [
        queue_says(ROOT, State.PENDING, attempt=0),
        queue_says(ROOT, State.RUNNING),
        queue_says(ROOT, State.WAITING, "waits for 2 children, 0 asks"),
        queue_says(ROOT, State.PENDING, "what it waited for is there"),
    ]
    seen = []
    view = start()
    for number, message in enumerate(said, 1):
        apply(view, Entry(f"1-{number}", message))
        seen.append((view.root_task.state, view.root_task.reason))

    assert seen == [
        (State.PENDING, ""),
        (State.RUNNING, ""),
        (State.WAITING, "waits for 2 children, 0 asks"),
        (State.PENDING, "what it waited for is there"),
    ]


def resync(task_id: str, state: State, *children: str, attempt: int = 1) -> TaskProgress:
    spawned = (ChildSpawned(child_task_id=child, agent="explore", title="from the record") for child in children)
    return queue_says(task_id, state, "", Resynced(), *spawned, attempt=attempt)


def test_a_snapshot_takes_the_place_of_what_the_view_knew():
    heard = [
        progress(ROOT, ChildSpawned(child_task_id=CHILD, agent="explore", title="look around")),
        progress(CHILD, call(CallState.RUNNING)),
    ]
    view = apply_all(start(), [Entry(f"5-{number}", message) for number, message in enumerate(heard, 1)])

    # as the transport makes one: all but the last stand at the reader's own place
    snapshot = [resync(ROOT, State.RUNNING, CHILD, attempt=2), resync(CHILD, State.COMPLETED), result(CHILD)]
    view = apply_all(view, [Entry(entry_id, m) for entry_id, m in zip(("5-2", "5-2", "8-0"), snapshot, strict=True)])

    assert (view.root_task.attempt, view.root_task.started_at_ms) == (2, 0)
    assert (view.tasks[CHILD].state, view.tasks[CHILD].title) == (State.COMPLETED, "look around")
    assert view.tasks[CHILD].running_tools == {}
    assert view.cursor(TRACE) == "8-0"


def test_a_reader_that_comes_late_gets_the_tree_from_the_snapshot_alone():
    snapshot = [resync(ROOT, State.WAITING, CHILD), resync(CHILD, State.ERROR), result(CHILD, status=State.ERROR)]
    entries = [Entry("0", message) for message in snapshot]

    view = apply_all(start(), [*entries, Entry("7-9", resync(ROOT, State.WAITING, CHILD))])

    assert view.root_task.children == (CHILD,)
    assert (view.tasks[CHILD].agent, view.tasks[CHILD].state) == ("explore", State.ERROR)
    assert view.cursor(TRACE) == "7-9"


def test_a_snapshot_that_was_cut_off_comes_again_and_changes_nothing():
    snapshot = [Entry("0", resync(ROOT, State.RUNNING, CHILD)), Entry("0", result(CHILD)), Entry("9-0", result(ROOT))]
    once = apply_all(start(), snapshot)

    assert apply_all(start(), [*snapshot[:2], *snapshot]) == once
    assert apply_all(once, snapshot) == once


def test_after_a_failover_that_forgot_the_task_its_new_attempts_are_shown():
    forgotten = ChildSpawned(child_task_id=SHARD, agent="recipe", title="src/a.py", trace_id=SHARD_TRACE)
    before = [queue_says(ROOT, State.RUNNING, "", forgotten, attempt=3)]
    after = [resync(ROOT, State.RUNNING, attempt=1), progress(ROOT, TurnStarted(turn=1)), result(ROOT)]
    view = apply_all(start(), [Entry(f"{number}-0", message) for number, message in enumerate([*before, *after], 1)])

    assert (view.root_task.attempt, view.root_task.turn, view.root_task.state) == (1, 1, State.COMPLETED)
    assert view.root_task.children == ()


def test_files_and_todos_show():
    said = progress(ROOT, FileChanged(path="a.py", status="A"), TodoUpdated(todos=(Todo(content="look"),)))
    view = apply_all(start(), [Entry("1-1", said), Entry("1-2", progress(ROOT, FileChanged(path="b.py")))])

    assert view.root_task.files == {"a.py": "A", "b.py": "M"}
    assert [todo.content for todo in view.root_task.todos] == ["look"]


@given(st.randoms(use_true_random=False), st.integers(0, ENTRIES))
def test_a_snapshot_stays_what_it_was(order, cut):
    entries = interleaved(order)
    view = apply_all(start(), entries[:cut])
    snapshot = view.snapshot()
    apply_all(view, entries[cut:])

    assert snapshot == apply_all(start(), entries[:cut]).snapshot()
    assert view.snapshot() == apply_all(start(), entries).snapshot()


def test_a_snapshot_cannot_be_changed():
    snapshot = start().snapshot()
    with pytest.raises(FrozenInstanceError):
        snapshot.root_task.turn = 2
    with pytest.raises(TypeError):
        apply(snapshot, Entry("1-1", result(ROOT)))
    assert snapshot == start().snapshot()
