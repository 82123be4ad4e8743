"""The live tree, drawn at a fixed width from a view that real events made."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from envelope.budget import Metrics, Usage
from envelope.events import CallState, ChildEnded, ChildSpawned, PlanChanged, StateChanged, ToolCallChanged, TurnStarted
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskProgress, TaskResult
from envelope.plan import Plan, PlanStep
from orchestrator.cli.tree import rows, tree
from orchestrator.session.fold import Session, apply
from orchestrator.session.line import At
from orchestrator.session.said import INTEREST
from transport.base import Entry

TRACE = new_trace_id()
ROOT = new_task_id()


class Story:
    """Entries in the order in which they are told; each second one."""

    def __init__(self, agent: str, title: str) -> None:
        self.view = Session.of(ROOT, TRACE, agent=agent, title=title)
        self.told = 0

    def progress(self, task_id: str, *events, **fields) -> None:
        self.told += 1
        message = TaskProgress(
            trace_id=TRACE,
            task_id=task_id,
            attempt=1,
            seq=self.told,
            at_ms=self.told * 1000,
            events=events,
            **{"status": State.RUNNING, **fields},
        )
        apply(self.view, Entry(f"{self.told}-0", message))

    def child(self, agent: str, title: str, *, of: str = ROOT) -> str:
        child = new_task_id()
        self.progress(of, ChildSpawned(child_task_id=child, agent=agent, title=title))
        return child

    def end(self, task_id: str, status: State, *errors: ErrorInfo) -> None:
        self.told += 1
        message = TaskResult(trace_id=TRACE, task_id=task_id, attempt=1, status=status, errors=errors)
        apply(self.view, Entry(f"{self.told}-0", message))


def drawn(view: Session, *, now_ms: int, max_rows: int = 20) -> str:
    console = Console(file=io.StringIO(), width=90, color_system=None)
    console.print(tree(view, now_ms=now_ms, max_rows=max_rows))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_tree_shows_states_tools_turns_tokens_cost_and_time():
    story = Story("run", "modernise it")
    build = story.child("build", "modernise it")
    story.progress(build, TurnStarted(turn=2))
    story.progress(
        build,
        ToolCallChanged(call_id="1", tool="bash", state=CallState.RUNNING, title="pytest -q"),
        metrics=Metrics(usage=Usage(input_tokens=12_000, output_tokens=400), cost_microusd=12_345, turns=2),
    )
    explore = story.child("explore", "find callers", of=build)
    story.progress(explore)
    story.end(explore, State.ERROR, ErrorInfo.of("model_auth", "the model's key is refused"))

    assert drawn(story.view, now_ms=62_000) == (
        "● run modernise it                                                                1 m 01 s\n"
        "  ● build modernise it          bash pytest -q       2 turns  12.4k tok  $0.0123  1 m 00 s\n"
        "    ✘ explore find callers      the model's key is…                                  0.0 s"
    )


def test_a_task_with_a_plan_says_how_far_it_is():
    story = Story("build", "modernise it")
    states = {"a": "done", "b": "running", "c": "pending"}
    steps = [
        PlanStep(step_id=name, title=f"Step {name}", goal="", agent="build", status=at) for name, at in states.items()
    ]
    story.progress(ROOT, TurnStarted(turn=2), PlanChanged(plan=Plan(goal="", steps=steps)))

    assert "thinking · plan 1/3: Step" in drawn(story.view, now_ms=1000)


def test_what_does_not_fit_is_counted_by_state():
    story = Story("batch", "modernise")
    shards = [story.child("recipe", f"module_{number}.py") for number in range(40)]
    for shard in shards[:5]:
        story.progress(shard)
    for shard in shards[5:30]:
        story.progress(shard)
        story.end(shard, State.COMPLETED)

    lines = drawn(story.view, now_ms=0, max_rows=8).splitlines()

    assert len(lines) == 8
    assert [line.split()[0] for line in lines] == ["●", "●", "●", "●", "●", "●", "·", "…"]
    assert lines[-1] == "  … 34 more (9 pending, 25 completed)"


def test_a_title_cannot_move_the_cursor():
    story = Story("run", "red \x1b[31m\x1b[2J alert")
    assert "\x1b" not in drawn(story.view, now_ms=0)


@st.composite
def _stories(draw: st.DrawFn) -> Session:
    story = Story("batch", "any")
    tasks = [ROOT]
    for _ in range(draw(st.integers(0, 25))):
        tasks.append(story.child("recipe", "shard", of=draw(st.sampled_from(tasks))))
    for task in draw(st.lists(st.sampled_from(tasks), max_size=10)):
        story.progress(task)
    for task in tasks[1:]:
        if draw(st.booleans()):
            ended = ChildEnded(child_task_id=task, state=draw(st.sampled_from(INTEREST[2:5])))
            story.progress(story.view.tasks[task].parent or ROOT, ended)
    return story.view


@given(_stories(), st.integers(3, 30))
def test_the_tree_never_outgrows_its_rows_and_hides_nothing_that_fits(view: Session, max_rows: int):
    shown = rows(view, max_rows=max_rows)
    assert len(shown) <= max_rows
    if len(view.tasks) <= max_rows:
        assert sorted(row.task.task_id for row in shown if row.task) == sorted(view.tasks)


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_place_in_the_order_of_interest(state: State):
    assert state in INTEREST


def test_a_task_that_waits_or_was_lost_says_so_in_the_tree():
    story = Story("run", "tidy up")
    waiting, lost = story.child("build", "wait"), story.child("build", "lose")
    for task_id, state, reason in (
        (waiting, State.WAITING, "waits for 2 children, 0 asks"),
        (lost, State.PENDING, "its worker was lost"),
    ):
        story.progress(task_id, StateChanged(state=state, reason=reason), status=state)

    picture = drawn(story.view, now_ms=10_000)

    assert "waits for 2 children" in picture
    assert "its worker was lost" in picture


def test_an_agent_with_subagents_at_work_tells_how_many_have_ended():
    story = Story("run", "tidy up")
    build = story.child("build", "tidy up")
    story.progress(build, TurnStarted(turn=1))
    callers, tests = story.child("explore", "callers", of=build), story.child("explore", "tests", of=build)
    story.progress(callers, ToolCallChanged(call_id="1", tool="grep", state=CallState.RUNNING, title="greet"))
    story.end(tests, State.COMPLETED)
    reason = StateChanged(state=State.WAITING, reason="waits for 1 children, 0 asks")
    story.progress(build, reason, status=State.WAITING)

    goal, waits, searches, _ = drawn(story.view, now_ms=10_000).splitlines()

    assert "ended" not in goal
    assert "1/2 ended · waits for 1" in waits
    assert "explore callers" in searches and "grep greet" in searches
    story.end(callers, State.COMPLETED)
    assert "2/2" not in drawn(story.view, now_ms=10_000)


def test_a_driver_tells_how_many_of_its_tasks_have_ended_and_then_that_it_puts_them_together():
    story = Story("batch", "tidy up")
    story.progress(ROOT)
    shards = [story.child("build", name) for name in ("one", "two")]
    assert "0/2 ended" in drawn(story.view, now_ms=10_000).splitlines()[0]
    for shard, said in zip(shards, ("1/2 ended", "putting together"), strict=True):
        story.progress(ROOT, ChildEnded(child_task_id=shard, state=State.COMPLETED))
        assert said in drawn(story.view, now_ms=10_000).splitlines()[0]

    story.end(ROOT, State.COMPLETED)
    assert "putting together" not in drawn(story.view, now_ms=10_000)
    assert [at for at, _ in story.view.root_task.own_line] == [At.STARTING, At.WAITING, At.TOGETHER]
