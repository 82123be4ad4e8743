"""Goals that are planned, from the request to the merged change; only the workers' part is scripted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from envelope.agents import AgentCard
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.events import PlanChanged
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskRequest, TaskResult, Workspace
from envelope.plan import Plan
from orchestrator.driver import DriverContext
from orchestrator.errors import BadInput
from orchestrator.planner.modes import PlanMode
from orchestrator.planner.survey import REPLAN_WORD
from orchestrator.planner.wish import plan_again
from orchestrator.service import handler_of
from orchestrator.submit import DRIVERS, Planning, goal_request
from transport.base import Transport
from transport.consumer import Delivery
from transport.errors import Unreachable

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
EXPLORE = AgentCard(name="explore", mode="subagent", pool="build", auth_scope=("read:**",))
PLAN = AgentCard(name="plan", mode="primary", pool="general", auth_scope=("read:**", "task:explore", "plan_exit:*"))
FILES = {"a.py": "one\ntwo\nthree\nfour\nfive\n", "b.py": "old\n", "t.py": "assert\n"}
GOAL = "Make it new"


def step(name: str, *after: str, agent: str = "build", **fields) -> dict:
    said = {"step_id": name, "title": f"Do {name}", "goal": f"do {name}", "agent": agent, "depends_on": list(after)}
    return {**said, **fields}


@dataclass
class Planners:
    """Answer with one plan after the other; the last one again and again."""

    answers: list[dict]
    asked: list[TaskRequest] = field(default_factory=list)

    async def handle(self, delivery: Delivery) -> TaskResult:
        task = delivery.request
        self.asked.append(task)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        said = {"trace_id": task.trace_id, "task_id": task.task_id, "attempt": delivery.claim.lease.attempt}
        if not answer:
            return TaskResult(**said, status=State.ERROR, errors=(ErrorInfo.of(ErrorCode.MODEL_FAILED, "no model"),))
        return TaskResult(**said, status=State.COMPLETED, output=Output(text="planned", structured=answer))


@dataclass
class Played:
    """What was asked for, and what came of it."""

    result: TaskResult
    tasks: list[TaskRequest]
    planners: Planners

    @property
    def steps(self) -> list[str]:
        """Their titles, in the order in which they started."""
        return [name_of(task) for task in self.tasks]

    def task(self, name: str) -> TaskRequest:
        return next(task for task in reversed(self.tasks) if name_of(task) == name)


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(120):  # bounds a hang
        await event.wait()


def name_of(task: TaskRequest) -> str:
    return task.input.prompt.partition("# Your step: Do ")[2].partition("\n")[0] or task.input.prompt


Edit = Callable[[TaskRequest, dict[str, str]], None]


@dataclass
class Scene:
    stage: object

    async def request(self, mode: PlanMode, *, gate: tuple[str, ...] = (), files=FILES, plan=None, **options):
        given = await self.stage.repository(files)
        workspace = Workspace(bundle=given.bundle, base=given.base)
        planning = Planning(mode, PLAN, (BUILD, EXPLORE), plan)
        settings = self.stage.muster.settings
        return goal_request(
            GOAL, agent=BUILD, settings=settings, workspace=workspace, gate=gate, planning=planning, **options
        )

    @asynccontextmanager
    async def workers(self, planners: Planners, edit: Edit):
        self.stage.builders.edit = self.giving_up(edit)
        async with self.stage.workers(), self.stage.serving("general", planners.handle):
            yield

    def giving_up(self, edit: Edit) -> Edit:
        def edit_or_fail(task: TaskRequest, files: dict[str, str]) -> None:
            try:
                edit(task, files)
            except GaveUp as e:
                raise self.stage.builders.fails(str(e)) from e

        return edit_or_fail

    async def play(self, mode: PlanMode, plans: list, edit: Edit, **options) -> Played:
        planners = Planners([{"steps": plan} if isinstance(plan, list) else plan for plan in plans])
        request = await self.request(mode, **options)
        async with self.workers(planners, edit), self.stage.orchestrator():
            [result] = await self.stage.muster.gather([await self.stage.muster.submit(request)])
        return Played(result, self.stage.builders.shards_started(), planners)

    async def change(self, result: TaskResult) -> str:
        return (await self.stage.transport.blobs.get(result.patch.diff)).decode() if result.patch else ""


@pytest.fixture
def scene(stage) -> Scene:
    return Scene(stage)


def editing(**changes: Callable[[dict[str, str]], None]) -> Edit:
    def edit(task: TaskRequest, files: dict[str, str]) -> None:
        changes.get(name_of(task), lambda _: None)(files)

    return edit


def put(path: str, old: str, new: str) -> Callable[[dict[str, str]], None]:
    def change(files: dict[str, str]) -> None:
        assert old in files[path], f"{path} has no {old!r}: {files[path]!r}"
        files[path] = files[path].replace(old, new)

    return change


def give_up(_files: dict[str, str]) -> None:
    raise GaveUp("it is too hard")


class GaveUp(Exception): ...


async def test_each_step_works_on_what_was_done_before_it_and_all_comes_back_as_one_change(scene):
    plan = [
        step("look", agent="explore"),
        step("one", "look"),
        step("two", "look"),
        step("last", "one", "two"),
    ]
    edit = editing(
        one=put("a.py", "one", "1"),
        two=put("a.py", "five", "5"),
        last=lambda files: (put("a.py", "1\ntwo", "1\n2")(files), put("a.py", "5\n", "5\n6\n")(files)),
    )
    played = await scene.play(PlanMode.LAYERED, [plan], edit, gate=("run-tests",))

    assert (played.result.status, played.result.errors) == (State.COMPLETED, ())
    assert played.result.output.structured["verified"] is True
    change = await scene.change(played.result)
    assert [line for line in change.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-one", "-two", "+1", "+2", "-five", "+5", "+6",
    ]  # fmt: skip
    assert played.steps[0] == "look" and played.steps[-1] == "last"
    assert Counter(played.steps) == {"look": 1, "one": 1, "two": 1, "last": 1}
    assert played.result.output.text.startswith("## Do look")


async def test_a_step_hears_its_goal_and_of_those_before_it_by_reference(scene):
    played = await scene.play(PlanMode.LAYERED, [[step("look", agent="explore"), step("one", "look")]], editing())

    look, one = played.tasks
    assert [(ref.type, ref.id) for ref in one.context_refs] == [("task", look.task_id)]
    assert "do one" in one.input.prompt and "nothing to do" in one.input.prompt and GOAL in one.input.prompt
    assert (look.auth_scope, one.auth_scope) == (EXPLORE.auth_scope, BUILD.auth_scope)
    assert {task.parent_task_id for task in played.tasks} == {played.result.task_id}


async def test_a_goals_limits_hold_for_each_of_its_steps(scene):
    """A model says no more of a step's budget than its goal has."""
    goal = Budget(max_cost_microusd=900, max_tokens=1_000, max_turns=9, max_tool_calls=3)
    steps = [step("one"), step("two", budget={"max_turns": 7, "max_tool_calls": 8})]
    given = Plan.model_validate({"goal": GOAL, "steps": steps})
    played = await scene.play(PlanMode.LAYERED, [], editing(), plan=given, budget=goal)

    assert played.task("one").budget == goal
    assert played.task("two").budget == goal.model_copy(update={"max_turns": 7})


async def test_the_planner_is_asked_once_for_a_plan_of_the_agents_that_there_are(scene):
    played = await scene.play(PlanMode.LAYERED, [[step("one")]], editing(one=put("b.py", "old", "new")))

    [asked] = played.planners.asked
    items = asked.output_schema["properties"]["steps"]["items"]["properties"]
    assert items["agent"]["enum"] == ["build", "explore"]
    assert asked.input.prompt.endswith(f"# The goal\n{GOAL}")
    assert not any(grant.startswith("edit") for grant in asked.auth_scope)


async def test_a_plan_that_cannot_be_is_sent_back_once_with_what_is_wrong(scene):
    plans = [[step("one", "two"), step("two", "one")], [step("one")]]
    played = await scene.play(PlanMode.LAYERED, plans, editing())

    assert played.result.status is State.COMPLETED
    _, second = played.planners.asked
    assert "these steps wait for each other: one -> two -> one" in second.input.prompt


async def test_a_model_that_gives_no_plan_ends_the_goal_with_a_sentence(scene):
    played = await scene.play(PlanMode.LAYERED, [[step("one", agent="wizard")]], editing())

    [error] = played.result.errors
    assert error.code is ErrorCode.PLAN_INCOMPLETE
    assert "names an agent 'wizard'" in error.message
    assert (len(played.planners.asked), played.tasks) == (2, [])


async def test_a_planner_that_fails_ends_the_goal_with_its_error(scene):
    played = await scene.play(PlanMode.LAYERED, [{}], editing())
    assert [error.code for error in played.result.errors] == [ErrorCode.MODEL_FAILED]


async def test_what_failed_is_planned_again_and_what_was_done_stays(scene):
    plans = [[step("one"), step("hard", "one"), step("after", "hard")], [step("easy", "one"), step("one", "easy")]]
    edit = editing(one=put("a.py", "one", "1"), hard=give_up, easy=put("b.py", "old", "new"))
    played = await scene.play(PlanMode.LAYERED, plans, edit)

    assert (played.result.status, played.result.errors) == (State.COMPLETED, ())
    assert Counter(played.steps) == {"one": 1, "hard": 1, "easy": 1}
    assert [file.path for file in played.result.patch.files] == ["a.py", "b.py"]
    again = played.planners.asked[1]
    assert "- [done] one: Do one (build) => changed" in again.input.prompt
    assert "The step 'hard' failed: it is too hard" in again.input.prompt
    assert {ref.id for ref in again.context_refs} == {task.task_id for task in played.tasks if name_of(task) != "easy"}


async def test_plans_that_fail_again_and_again_end_the_goal_with_what_was_done(scene):
    plans = [[step("one"), step("hard", "one")], [step("hard", "one")]]
    edit = editing(one=put("a.py", "one", "1"), hard=give_up)
    played = await scene.play(PlanMode.LAYERED, plans, edit)

    [error] = played.result.errors
    assert error.message == "the step 'hard': it is too hard"
    assert Counter(played.steps) == {"one": 1, "hard": 4}
    assert "+1" in await scene.change(played.result)
    assert "(failed: it is too hard)" in played.result.output.text


@pytest.mark.parametrize(
    ("policy", "count", "state"), [("retry", 3, State.ERROR), ("skip", 1, State.COMPLETED), ("stop", 1, State.ERROR)]
)
async def test_a_step_says_what_follows_its_failure(scene, policy, count, state):
    plan = [step("hard", on_failure=policy), step("after", "hard")]
    edit = editing(hard=give_up, after=put("b.py", "old", "new"))
    played = await scene.play(PlanMode.LAYERED, [plan], edit)

    assert played.result.status is state
    assert Counter(played.steps) == {"hard": count} | ({"after": 1} if policy == "skip" else {})
    assert len(played.planners.asked) == 1
    if policy == "skip":
        assert "- hard failed, and was skipped: it is too hard" in played.task("after").input.prompt


async def test_work_that_collides_is_named_with_both_sides(scene):
    plan = [step("one", on_failure="stop"), step("two", on_failure="stop")]
    edit = editing(one=put("b.py", "old", "red"), two=put("b.py", "old", "blue"))
    played = await scene.play(PlanMode.LAYERED, [plan], edit)

    [error] = played.result.errors
    assert error.code is ErrorCode.COLLISION
    assert "the work of 'two' collides with that of 'one' in b.py" in error.message
    assert "+red" in await scene.change(played.result)


async def test_work_follows_no_rename_to_where_its_step_may_not_edit(scene):
    steps = step("one", on_failure="stop"), step("two", on_failure="stop", auth_scope=["read:**", "edit:a.py"])
    edit = editing(one=lambda files: files.update({"c.py": files.pop("a.py")}), two=put("a.py", "five", "5"))
    played = await scene.play(PlanMode.LAYERED, [], edit, plan=given(*steps))

    [error] = played.result.errors
    assert error.code is ErrorCode.COLLISION
    assert "the work of 'two' collides with that of 'one' in a.py, c.py: " in error.message
    assert "a.py has become c.py, which this patch may not change" in error.message


async def test_work_that_collides_is_done_again_on_top_of_the_other_where_the_plan_says_so(scene):
    seen = []

    def two(files):
        seen.append(files["b.py"])
        files["b.py"] = files["b.py"].replace("old", "blue").replace("red", "red and blue")

    plan = [step("one"), step("two", on_failure="retry"), step("after", "one", "two")]
    edit = editing(one=put("b.py", "old", "red"), two=two, after=put("b.py", "red and blue", "violet"))
    played = await scene.play(PlanMode.LAYERED, [plan], edit)

    assert (played.result.status, played.result.errors) == (State.COMPLETED, ())
    assert seen == ["old\n", "red\n"]
    assert "+violet" in await scene.change(played.result)


async def test_a_worker_that_changes_what_its_step_may_not_is_caught(scene):
    scene.stage.builders.honest = False
    plan = [step("look", agent="explore", on_failure="stop")]
    played = await scene.play(PlanMode.LAYERED, [plan], editing(look=put("b.py", "old", "new")))

    [error] = played.result.errors
    assert error.code is ErrorCode.OUT_OF_SCOPE
    assert played.result.patch is None


async def test_a_gate_proves_the_merged_change_and_no_step_alone(scene):
    edit = editing(one=put("a.py", "one", "assert"), two=put("b.py", "old", "fail"))
    plan = given(step("one"), step("two"))
    played = await scene.play(PlanMode.LAYERED, [], edit, gate=("run-tests",), plan=plan)

    assert [error.code for error in played.result.errors] == [ErrorCode.GATE_FAILED]
    assert played.result.output.structured["gate"]["after"]["tests"] == 3


@pytest.mark.parametrize("mode", [PlanMode.LAYERED, PlanMode.ON_DEMAND])
async def test_work_that_the_gate_refuses_is_planned_again_on_top_of_itself(scene, mode):
    plans = [[step("one")]] if mode is PlanMode.LAYERED else []
    spoil, mend = put("a.py", "one", "fail"), put("a.py", "fail", "assert")
    edit = editing(**{"one": spoil, GOAL: spoil, "mend": mend})
    played = await scene.play(mode, [*plans, [step("mend")]], edit, gate=("run-tests",))

    assert (played.result.status, played.result.errors) == (State.COMPLETED, ())
    assert played.result.output.structured["verified"] is True
    assert "+assert" in await scene.change(played.result)
    again = played.planners.asked[-1]
    assert "is not acceptable: the gate fails" in again.input.prompt
    assert again.workspace.changes is not None, "the planner sees what was done"


async def test_work_that_the_gate_refuses_again_and_again_ends_after_three_more_plans(scene):
    edit = editing(one=put("a.py", "one", "fail"))
    plans = [[step(name)] for name in ("one", "two", "three", "four", "five")]
    played = await scene.play(PlanMode.LAYERED, plans, edit, gate=("run-tests",))

    assert [error.code for error in played.result.errors] == [ErrorCode.GATE_FAILED]
    assert played.steps == ["one", "two", "three", "four"]
    assert "+fail" in await scene.change(played.result)


def given(*steps: dict, **fields) -> Plan:
    return Plan.model_validate({"goal": GOAL, "steps": steps, **fields})


async def test_a_plan_that_a_person_made_is_carried_out_as_it_is_and_a_model_mends_it(scene):
    scope = ["edit:a.py", "read:**"]
    steps = (step("one", auth_scope=scope, deadline_ms=60_000), step("hard", "one", on_failure="replan"))
    plan = given(*steps, allow_replan=True, max_replans=1)
    edit = editing(one=put("a.py", "one", "1"), hard=give_up, easy=put("b.py", "old", "new"))
    played = await scene.play(PlanMode.LAYERED, [[step("easy", "one")]], edit, plan=plan)

    assert (played.result.status, played.result.errors) == (State.COMPLETED, ())
    assert played.steps == ["one", "hard", "easy"]
    assert (played.task("one").auth_scope, played.task("one").deadline_ms) == (tuple(scope), 60_000)
    assert len(played.planners.asked) == 1


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (given(step("one", auth_scope=["webfetch:**"])), "the grant 'webfetch:**' is not within"),
        (given(step("one", budget={"max_cost_microusd": 10**9})), "the steps may spend $1000.00 together"),
        (given(step("one", "two")), "depends on 'two', which is no step"),
    ],
)
async def test_a_persons_plan_that_does_not_fit_its_goal_starts_nothing(scene, plan, message):
    played = await scene.play(PlanMode.LAYERED, [], editing(), plan=plan)

    [error] = played.result.errors
    assert (error.code, played.tasks, played.planners.asked) == (ErrorCode.BAD_INPUT, [], [])
    assert message in error.message and error.hint


async def test_no_step_may_do_more_than_the_agent_of_the_goal(scene):
    plans = [[step("look", agent="explore"), step("one", "look")]]
    played = await scene.play(PlanMode.LAYERED, plans, editing(), auth_scope=("read:**", "edit:b.py"))

    assert played.task("look").auth_scope == ("read:**",)
    assert played.task("one").auth_scope == ("read:**", "edit:b.py")
    assert played.planners.asked[0].auth_scope == ("read:**",)


async def test_on_demand_asks_nobody_while_the_agent_gets_on_alone(scene):
    edit = editing(**{GOAL: put("b.py", "old", "new")})
    played = await scene.play(PlanMode.ON_DEMAND, [[step("one")]], edit)

    assert played.result.status is State.COMPLETED
    assert (played.steps, played.planners.asked) == ([GOAL], [])
    assert played.result.output.text == "changed"


async def test_on_demand_plans_when_the_agent_has_failed(scene):
    edit = editing(**{GOAL: give_up, "one": put("b.py", "old", "new")})
    played = await scene.play(PlanMode.ON_DEMAND, [[step("one")]], edit)

    assert played.result.status is State.COMPLETED
    assert played.steps == [GOAL, "one"]
    assert "The step 'goal' failed: it is too hard" in played.planners.asked[0].input.prompt


async def test_light_gives_the_agent_waypoints_from_one_call_without_tools(scene):
    waypoints = ["Find it.", "Mend  it.", "Test it."]
    edit = editing(**{GOAL: put("b.py", "old", "new")})
    played = await scene.play(PlanMode.LIGHT, [{"waypoints": waypoints}], edit)

    assert played.result.status is State.COMPLETED
    [asked], [task] = played.planners.asked, played.tasks
    assert asked.auth_scope == ()
    assert task.input.params["waypoints"] == ["Find it.", "Mend it.", "Test it."]
    assert task.input.prompt == GOAL


async def test_living_gives_the_agent_a_plan_that_is_its_own_from_then_on(scene):
    edit = editing(**{GOAL: put("b.py", "old", "new")})
    played = await scene.play(PlanMode.LIVING, [[step("one"), step("two", "one")]], edit)

    assert played.result.status is State.COMPLETED
    [task] = played.tasks
    assert [one["step_id"] for one in task.input.params["plan"]["steps"]] == ["one", "two"]


async def test_a_person_who_stops_a_step_with_the_word_for_it_gets_another_plan(scene):
    """The step is stopped while it is under way, and the reason is told to the planner."""
    planners = Planners([{"steps": [step("one"), step("two", "one")]}, {"steps": [step("other", "one")]}])
    under_way = asyncio.Event()

    async def before_start(task: TaskRequest) -> None:
        if name_of(task) == "two":
            under_way.set()
            await asyncio.Event().wait()

    scene.stage.builders.before_start = before_start
    request = await scene.request(PlanMode.LAYERED)
    async with scene.workers(planners, editing(one=put("a.py", "one", "1"))), scene.stage.orchestrator():
        handle = await scene.stage.muster.submit(request)
        await soon(under_way)
        goal = await scene.stage.muster.record(handle.task_id)
        [two] = await plan_again(scene.stage.transport, goal, "smaller, please", by="a person")
        [result] = await scene.stage.muster.gather([handle])

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert (two.agent, two.parent_task_id) == ("build", goal.task_id)
    assert f"The step 'two' failed: {REPLAN_WORD}smaller, please" in planners.asked[1].input.prompt
    assert [name_of(task) for task in scene.stage.builders.shards_started()] == ["one", "two", "other"]


async def test_a_goal_without_steps_under_way_or_without_a_plan_is_not_planned_again(scene):
    muster = scene.stage.muster
    played = await scene.play(PlanMode.LAYERED, [[step("one")]], editing())
    light = await muster.submit(await scene.request(PlanMode.LIGHT))

    for task_id, message in (
        (played.result.task_id, "no step of the goal"),
        (light.task_id, "has no plan that could be made again"),
        (played.planners.asked[0].task_id, "no step of the goal"),
    ):
        with pytest.raises(BadInput, match=message) as told:
            await plan_again(muster.transport, await muster.record(task_id), "x", by="y")
        assert "muster task prompt" not in told.value.hint or f"task prompt {task_id} " in told.value.hint


async def test_the_plan_is_seen_as_it_goes(scene):
    played = await scene.play(PlanMode.LAYERED, [[step("one"), step("two", "one")]], editing())

    plans = [
        event.plan
        for entry in await scene.stage.muster.events(played.result.trace_id)
        for event in getattr(entry.message, "events", ())
        if isinstance(event, PlanChanged)
    ]
    assert [[str(one.status) for one in plan.steps] for plan in plans] == [
        ["running", "pending"], ["done", "running"], ["done", "done"],
    ]  # fmt: skip


TWO_PLANS = ([step("one"), step("hard", "one")], [step("easy", "one")])
EDITS = {"one": put("a.py", "one", "1"), "hard": give_up, "easy": put("b.py", "old", "new")}


def is_right(scene: Scene, result: TaskResult, planners: Planners) -> None:
    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert result.output.structured["verified"] is True
    assert [file.path for file in result.patch.files] == ["a.py", "b.py"]
    assert [name_of(task) for task in scene.stage.builders.shards_started()] == ["one", "hard", "easy"]
    assert len(planners.asked) == 2
    assert Counter(task.agent for task in scene.stage.builders.started)["verify"] == 2


@pytest.mark.parametrize("killed_at", ["plan", "hard", "verify"])
async def test_a_driver_that_goes_away_while_a_task_is_under_way_is_followed_by_another(scene, killed_at):
    """That task waits until the second orchestrator is there."""
    stage = scene.stage
    planners = Planners([{"steps": plan} for plan in TWO_PLANS])
    under_way, may_go_on = asyncio.Event(), asyncio.Event()

    async def hold(name: str) -> None:
        if name == killed_at:
            under_way.set()
            await may_go_on.wait()

    async def before_start(task: TaskRequest) -> None:
        await hold("verify" if task.agent == "verify" and task.workspace.changes else name_of(task))

    async def plan(delivery: Delivery) -> TaskResult:
        await hold("" if planners.asked else "plan")
        return await planners.handle(delivery)

    stage.builders.before_start, stage.builders.edit = before_start, scene.giving_up(editing(**EDITS))
    request = await scene.request(PlanMode.LAYERED, gate=("run-tests",))
    async with stage.workers(), stage.serving("general", plan):
        async with stage.orchestrator():
            handle = await stage.muster.submit(request)
            await soon(under_way)
        may_go_on.set()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    is_right(scene, result, planners)


class Dying:
    """A transport whose user loses it right after its first write, then after its second, and so on: what was written
    is there, and nobody knows."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.lives = 0
        self._left = 1

    def __getattr__(self, name: str):
        return getattr(self._transport, name)

    async def submit(self, *arguments, **options):
        return self._dies(await self._transport.submit(*arguments, **options))

    async def emit(self, *arguments, **options):
        return self._dies(await self._transport.emit(*arguments, **options))

    def _dies(self, written):
        self._left -= 1
        if self._left == 0:
            self.lives += 1
            self._left = self.lives + 1
            raise Unreachable("the line went dead")
        return written


async def test_a_driver_that_dies_after_each_of_its_writes_comes_to_the_same_end(scene):
    stage = scene.stage
    planners, dying = Planners([{"steps": plan} for plan in TWO_PLANS]), Dying(stage.transport)
    handle_task = handler_of(DriverContext(dying, stage.folder / "cache", stage.metrics))
    request = await scene.request(PlanMode.LAYERED, gate=("run-tests",))
    async with scene.workers(planners, editing(**EDITS)), stage.serving(DRIVERS, handle_task):
        handle = await stage.muster.submit(request)
        [result] = await stage.muster.gather([handle])

    is_right(scene, result, planners)
    assert dying.lives > 10  # it has died at each write of the last life, which came to the end
    assert (await stage.muster.record(handle.task_id)).attempt == dying.lives + 1
