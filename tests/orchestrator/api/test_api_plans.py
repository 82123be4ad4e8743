"""Goals that are planned, over HTTP: started, seen as data, planned again by a person; and the same from Python."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from envelope.agents import AgentCard, WorkerCard
from envelope.lifecycle import State
from envelope.messages import Output, TaskResult
from envelope.plan import Plan, PlanStep
from orchestrator.errors import BadInput, UnknownName
from orchestrator.submit import GoalParams, params_of
from transport.base import Handle

pytestmark = pytest.mark.redis

PLANNER = AgentCard(name="plan", mode="primary", pool="general", auth_scope=("read:**",))
FIRST = [{"step_id": "one", "title": "one", "goal": "begin", "agent": "build"}]
SECOND = [{"step_id": "two", "title": "two", "goal": "end", "agent": "build"}]
STEP = PlanStep(step_id="a", title="a", goal="a", agent="build")


@pytest_asyncio.fixture
async def planners(api):
    """A pool of planners, whose answers are `FIRST`, and `SECOND` from then on. What they were asked."""
    stage, asked = api.stage, []
    await stage.transport.announce(WorkerCard(worker="p", pool="general", slots=1, agents=(PLANNER,)), ttl_s=600)

    async def handle(delivery) -> TaskResult:
        task = delivery.request
        asked.append(task)
        output = Output(structured={"steps": SECOND if len(asked) > 1 else FIRST})
        attempt = delivery.claim.lease.attempt
        return TaskResult(
            trace_id=task.trace_id, task_id=task.task_id, attempt=attempt, status=State.COMPLETED, output=output
        )

    async with AsyncExitStack() as serving:

        async def serve() -> list:
            await serving.enter_async_context(stage.serving("general", handle))
            await serving.enter_async_context(stage.orchestrator())
            await serving.enter_async_context(stage.workers())
            return asked

        yield serve


async def test_a_goal_is_planned_seen_and_planned_again(api, planners):
    held, started = asyncio.Event(), asyncio.Event()

    async def hold(task) -> None:
        if "begin" in task.input.prompt:
            started.set()
            await held.wait()

    api.stage.builders.before_start = hold
    where = await api.stage.repository({"a.py": "one\n"})
    api.stage.builders.edit = lambda task, files: None
    asked = await planners()
    goal = {"goal": "Make it new", "plan": "layered", "workspace": {"bundle": where.bundle, "base": where.base}}
    status, told = await api.call("POST", "/v1/goals", who="submitter", json=goal)
    assert status == 201, told
    goal_id = told["task_id"]
    async with asyncio.timeout(120):
        await started.wait()

    shown = await api.call("GET", f"/v1/tasks/{goal_id}/plan", who="viewer")
    refused = await api.call("POST", f"/v1/tasks/{goal_id}/replan", who="viewer", json={})
    again = await api.call("POST", f"/v1/tasks/{goal_id}/replan", who="submitter", json={"reason": "smaller"})
    held.set()
    result = await api.stage.muster.gather([Handle(told["task_id"], told["trace_id"])])
    late = await api.call("POST", f"/v1/tasks/{goal_id}/replan", who="submitter", json={})

    assert (shown[0], [step["step_id"] for step in shown[1][goal_id]["steps"]]) == (200, ["one"])
    assert refused[0] == 403
    assert again == (200, {"stopped": 1})
    assert [one.status for one in result] == [State.COMPLETED]
    assert "smaller" in asked[1].input.prompt
    assert (late[0], late[1]["title"]) == (422, f"no step of the goal {goal_id} is under way")
    plans = await api.stage.muster.plans(goal_id)
    assert [(step.step_id, str(step.status)) for step in plans[goal_id].steps] == [("two", "done")]


async def test_a_goal_says_how_it_is_planned(api, planners):
    async def params(**fields) -> GoalParams:
        status, told = await api.call("POST", "/v1/goals", who="submitter", json={"goal": "x", **fields})
        assert status == 201, told
        return params_of(GoalParams, await api.stage.muster.request(told["task_id"]))

    led = await params(plan="light")
    given = await params(given_plan={"goal": "", "steps": [*FIRST, *SECOND]})
    approved = await params(agent="plan")

    assert (led.plan, led.planner and led.planner.agent) == ("light", "plan")
    assert given.plan == "layered" and given.given_plan is not None
    assert [step.depends_on for step in given.given_plan.steps] == [(), ("one",)]  # a plain list is a chain
    assert approved.then is not None and approved.then.agent == "build"


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"plan": "lite"}, "plan"),
        ({"given_plan": {"goal": "", "steps": [{**FIRST[0], "agent": "biuld"}]}}, "names an agent 'biuld'"),
        ({"given_plan": {"goal": "", "steps": [{**FIRST[0], "depends_on": ["one"]}]}}, "wait for each other"),
        ({"given_plan": {"goal": "", "steps": FIRST}, "plan": "light"}, "are dispatched, not light"),
        ({"agent": "plan", "plan": "layered"}, "plans by itself"),
    ],
)
async def test_a_plan_that_could_not_be_carried_out_is_refused(api, planners, fields, title):
    status, told = await api.call("POST", "/v1/goals", who="submitter", json={"goal": "x", **fields})
    assert (status, told["status"]) == (422, 422) and title in told["title"]
    assert await api.stage.muster.tasks() == []


async def test_a_goal_from_python_is_a_request_that_nobody_has_to_fill_in(api, planners):
    muster = api.stage.muster
    request = await muster.goal("Make it new", plan="on-demand", gate=["run-tests"])

    params = params_of(GoalParams, request)
    assert (params.agent, params.plan, params.gate, request.sender) == ("build", "on-demand", ("run-tests",), "api")
    with pytest.raises(BadInput, match="no way to plan called 'odd'"):
        await muster.goal("x", plan="odd")
    with pytest.raises(BadInput, match="dispatched, not living"):
        await muster.goal("x", plan="living", given_plan=Plan(goal="", steps=(STEP,)))
    with pytest.raises(UnknownName):
        await muster.goal("x", agent="wizard")
