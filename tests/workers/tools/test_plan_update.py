"""The living plan: what a change makes of it, what is refused and with what words, and that it is there again later."""

from __future__ import annotations

import asyncio
import doctest
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from envelope.budget import Budget, Usage
from envelope.events import Event, PlanChanged
from envelope.messages import TaskInput, TaskResult
from sandbox.base import Sandbox
from workers.agent.calls import Answered
from workers.agent.compaction import Compaction
from workers.agent.history import open_session, reopen_session, with_answers, with_open_turn, with_prompts, with_reply
from workers.agent.planned import plan_of
from workers.agent.reminders import STANDING, reminded
from workers.agent.session import Session
from workers.agent.shown import shown
from workers.agents.registry import builtin
from workers.llm.base import Completed, ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS
from workers.tools import plan_changes
from workers.tools.base import ChildRequest, Delegated, ToolContext, ToolResult
from workers.tools.dispatch import run_calls
from workers.tools.planning import Planning
from workers.tools.registry import all_tools

OPEN = Guard(("*:**",), DEFAULTS)
TOOLS = all_tools()


class Nobody:
    async def start(self, request: ChildRequest) -> str:
        raise AssertionError("no subagents here")

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("no subagents here")

    def catalogue(self) -> Mapping[str, str]:
        return {}


async def no_sandbox() -> Sandbox:
    raise AssertionError("a plan needs no sandbox")


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def desk(events: list[Event]) -> ToolContext:
    planning = Planning(agents=("build", "explore", "general"), agent="build")
    return ToolContext(no_sandbox, Nobody(), {}, emit=events.append, planning=planning)


def update(version: int, *ops: Mapping[str, Any], call_id: str = "c", **more: Any) -> ToolCall:
    arguments = {"version": version, "ops": [*ops], **more}
    return ToolCall(id=call_id, name="plan_update", arguments=json.dumps(arguments), input=arguments)


def add(step_id: str, **more: Any) -> dict[str, Any]:
    return {"op": "add", "step_id": step_id, "title": step_id.upper(), **more}


async def run(desk: ToolContext, *calls: ToolCall, guard: Guard = OPEN) -> list[ToolResult]:
    results = await run_calls(calls, TOOLS, desk, guard, lambda _: None)
    assert all(isinstance(result, ToolResult) for result in results)
    return results  # pyright: ignore[reportReturnType]


def order(desk: ToolContext) -> list[str]:
    return [step.step_id for step in desk.planning.plan.steps] if desk.planning.plan else []


async def test_a_plan_begins_grows_and_is_told_whole(desk: ToolContext, events: list[Event]):
    await run(desk, update(0, add("a", agent="explore", goal="find\n it"), {"op": "add", "title": "Next"}, goal="Tidy"))

    [told] = await run(
        desk, update(1, {"op": "done", "step_id": "a", "outcome": "in x.py"}, add("c", depends_on=["a"]))
    )

    assert told.content == (
        "Plan, version 2: Tidy\n"
        "1. [done] a: A (explore): find it => in x.py\n"
        "2. [pending] s1: Next (build)\n"
        "3. [pending] c: C (build, after a)"
    )
    assert told.title == "1 of 3 steps done"
    assert [event.plan.version for event in events if isinstance(event, PlanChanged)] == [1, 2]


@pytest.mark.parametrize(
    ("op", "after"),
    [
        (add("d"), "abcd"),
        (add("d", before="a"), "dabc"),
        (add("d", after="a"), "adbc"),
        ({"op": "move", "step_id": "c", "before": "a"}, "cab"),
        ({"op": "move", "step_id": "a", "after": "c"}, "bca"),
        ({"op": "drop", "step_id": "b"}, "ac"),
    ],
)
async def test_steps_are_put_where_they_belong(desk: ToolContext, op: dict[str, Any], after: str):
    await run(desk, update(0, add("a"), add("b"), add("c")))

    [told] = await run(desk, update(1, op))

    assert (told.is_error, "".join(order(desk))) == (False, after)


async def test_a_change_changes_what_it_names_and_nothing_else(desk: ToolContext):
    await run(desk, update(0, add("a"), add("b", depends_on=["a"], on_failure="skip")))

    await run(desk, update(1, {"op": "change", "step_id": "b", "agent": "general", "status": "running"}))

    assert desk.planning.plan
    changed = desk.planning.plan.steps[1]
    assert (changed.title, changed.agent, changed.status, changed.on_failure) == ("B", "general", "running", "skip")
    assert changed.depends_on == ("a",)


@pytest.mark.parametrize(
    ("ops", "words"),
    [
        ([add("b")], "op 1 (add): there is a step 'b' already"),
        ([{"op": "add"}], "op 1 (add): it needs a title"),
        ([add("d"), {"op": "drop", "step_id": "x"}], "op 2 (drop): there is no step 'x'; there are: a, b, d"),
        ([{"op": "move", "step_id": "a"}], "say where to"),
        ([{"op": "move", "step_id": "a", "after": "a"}], "there is no step 'a'; there are: b"),
        ([{"op": "change", "step_id": "a"}], "say what to change"),
        ([{"op": "swap"}], "'swap' is not one of ['add', 'move', 'change', 'drop', 'done']"),
        ([add("d", agent="explorer")], "'explorer' that does not exist; did you mean 'explore'?"),
        ([add("d", agent="zzz")], "there are: build, explore, general"),
        ([add("d", depends_on=["x"])], "'d' depends on 'x', which is no step; there are: a, b"),
        ([{"op": "drop", "step_id": "a"}], "'b' depends on 'a', which is no step"),
        ([{"op": "change", "step_id": "a", "depends_on": ["b"]}], "these steps wait for each other: "),
        ([add("d", depends_on=["d"])], "these steps wait for each other: d -> d"),
        ([add("d", goal="x" * 1001)], "the goal of the step 'd' has 1001 characters; say it in 1000"),
        ([add("d", depends_on=["a", "x", "a"])], "'d' depends on 'x'"),
        ([add(f"d{number}") for number in range(49)], "at most 50 steps, and this has 51"),
    ],
)
async def test_a_bad_change_is_refused_whole_and_says_what_would_work(
    desk: ToolContext, events: list[Event], ops: list[dict[str, Any]], words: str
):
    await run(desk, update(0, add("a"), add("b", depends_on=["a"])))

    [refused] = await run(desk, update(1, *ops))

    assert refused.is_error and words in refused.content
    assert (order(desk), len(events)) == (["a", "b"], 1)


async def test_a_stale_version_is_told_the_plan_as_it_is(desk: ToolContext):
    [none] = await run(desk, update(3, add("a")))
    calls = [update(0, add(name), call_id=name) for name in "ab"]

    first, second = await run(desk, *calls)

    assert "name version 0 to begin one" in none.content
    assert not first.is_error and second.is_error
    assert "you named version 0" in second.content and second.content.endswith(first.content)
    assert order(desk) == ["a"]


async def test_an_agent_with_fewer_rights_has_no_plan_to_change(desk: ToolContext):
    [out_of_scope] = await run(desk, update(0, add("a")), guard=Guard(("read:**",), DEFAULTS))
    general = Guard(("*:**",), (*DEFAULTS, *builtin()["general"].rules))

    assert out_of_scope.is_error and desk.planning.plan is None
    assert general.hides("plan_update") and not OPEN.hides("plan_update")


def opened() -> Session:
    return open_session(builtin()["build"], model="m", system="You are.", prompt="Do it.", budget=Budget())


def asked(session: Session, *calls: ToolCall) -> Session:
    reply = Completed(text="", reasoning="", tool_calls=calls, finish_reason="tool_calls", usage=Usage())
    return with_reply(session, reply, keep_calls=True)


async def planned(desk: ToolContext, session: Session, *calls: ToolCall) -> Session:
    """The session after a turn of these calls, as it is stored and loaded again."""
    results = await run(desk, *calls)
    answers = [Answered(call, result) for call, result in zip(calls, results, strict=True)]
    return Session.load(with_answers(asked(session, *calls), answers, {}).dump())


async def test_a_plan_is_found_again_in_a_stored_session(desk: ToolContext):
    first = await planned(desk, opened(), update(0, add("a")))
    second = await planned(desk, first, update(1, add("b")), update(1, add("c"), call_id="late"))
    again = reopen_session(second, builtin()["build"], model="m", prompt="More.", budget=Budget())
    child = ToolCall(id="t", name="task", arguments="{}", input={})
    [result] = await run(desk, update(2, add("d")))
    waits = with_open_turn(
        asked(again, update(2, add("d")), child),
        [Answered(update(2, add("d")), result), Answered(child, Delegated("x"))],
        {},
    )

    found = [plan_of(session) for session in (opened(), first, second, again, waits)]
    steps = [[step.step_id for step in plan.steps] if plan else None for plan in found]
    assert steps == [None, ["a"], ["a", "b"], ["a", "b"], ["a", "b", "d"]]


async def test_the_model_is_shown_the_plan_again_as_soon_as_it_cannot_see_it(desk: ToolContext):
    session = await planned(desk, opened(), update(0, add("a")))
    plan = plan_changes.listed(plan_of(session) or pytest.fail("there is a plan"))
    later = with_prompts(session, ["And now?"])
    compacted = later.model_copy(update={"compaction": Compaction(summary="Some.", kept_from=len(later.messages))})

    def told(session: Session) -> list[bool]:
        is_told = f"{STANDING}\n{plan}"
        return [is_told in message.content for message in shown(reminded(session)) if message.role == "user"]

    assert told(session) == [False]
    assert told(later) == [False, False, True]
    assert told(compacted) == [False, True]


def test_the_example_of_a_plan_in_words_holds():
    assert doctest.testmod(plan_changes).failed == 0


STEP = "{op: add, step_id: a, title: Look, agent: explore}"
SCRIPT = f"""
rules:
  - when: {{turn: 1}}
    reply: {{tool_calls: [{{name: plan_update, arguments: {{version: 0, goal: Tidy, ops: [{STEP}]}}}}]}}
  - {{when: {{turn: 2}}, reply: {{text: Begun.}}}}
  - when: {{user_contains: go on, turn: 3}}
    reply: {{tool_calls: [{{name: plan_update, arguments: {{version: 1, ops: [{{op: done, step_id: a}}]}}}}]}}
  - {{reply: {{text: "${{result.1}}"}}}}
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_another_task_goes_on_with_the_plan_of_its_session(start_agents):
    hands, server = await start_agents(SCRIPT)

    def ask(prompt: str, **fields):
        scope = ("read:**", "plan_update:*")
        return hands.request(agent="build", auth_scope=scope, input=TaskInput(prompt=prompt), **fields)

    first = await hands.result(begun := ask("begin"))
    second = await hands.result(went_on := ask("go on", resume_token=first.resume_token))

    assert second.output.text == "Plan, version 2: Tidy\n1. [done] a: Look (explore)"
    prompts = [message["content"] for message in server.log.bodies[2]["messages"] if message["role"] == "user"]
    assert "1. [pending] a: Look (explore)" in prompts[-1], "it is reminded of the plan"
    events = await asyncio.gather(*(hands.events(request.trace_id, "plan") for request in (begun, went_on)))
    assert [[(event.plan.version, event.plan.steps[0].status) for event in told] for told in events] == [
        [(1, "pending")],
        [(2, "done")],
    ]
