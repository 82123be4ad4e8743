"""The ways in which planning and acting go together (see `modes.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

from envelope.agent_params import AgentParams
from envelope.messages import TaskResult
from envelope.plan import OnFailure, Plan, PlanStep

from ..driver import Driver
from ..goal_work import agent_work, title_of
from ..submit import GoalParams
from .asking import ask_plan, ask_waypoints
from .checks import MAX_REPLANS, checked
from .lead import Lead, bounds_of, planner_of
from .modes import PlanMode

LIVING_GOAL_CHARS = 1_000  # of a step in a plan that stands in every request to a model; as `plan_update` has it
GOAL_STEP = "goal"

# What the agents of a goal come to, as one agent's result; and who may have more done for it.
Led = tuple[TaskResult, Lead | None]


async def drive_plan(driver: Driver, params: GoalParams) -> Led:
    return await DRIVES[params.plan](driver, params)


async def _layered(driver: Driver, params: GoalParams) -> Led:
    return await _follow(driver, params, await _first_plan(driver, params))


async def _on_demand(driver: Driver, params: GoalParams) -> Led:
    """A plan of one step, the goal: only when that does not do there is more to plan."""
    goal = driver.request.input.prompt
    whole = PlanStep(
        step_id=GOAL_STEP, title=title_of(goal), goal=goal, agent=params.agent, on_failure=OnFailure.REPLAN
    )
    plan = Plan(goal=goal, steps=(whole,), allow_replan=True, max_replans=MAX_REPLANS)
    return await _follow(driver, params, plan)


async def _light(driver: Driver, params: GoalParams) -> Led:
    waypoints = await ask_waypoints(driver, planner_of(params))
    return await _alone(driver, params, AgentParams(waypoints=waypoints)), None


async def _living(driver: Driver, params: GoalParams) -> Led:
    plan = await _first_plan(driver, params)
    steps = tuple(step.model_copy(update={"goal": step.goal[:LIVING_GOAL_CHARS]}) for step in plan.steps)
    return await _alone(driver, params, AgentParams(plan=plan.model_copy(update={"steps": steps}))), None


DRIVES: Mapping[PlanMode, Callable[[Driver, GoalParams], Awaitable[Led]]] = {
    PlanMode.LAYERED: _layered,
    PlanMode.ON_DEMAND: _on_demand,
    PlanMode.LIGHT: _light,
    PlanMode.LIVING: _living,
}


async def _first_plan(driver: Driver, params: GoalParams) -> Plan:
    bounds = bounds_of(driver, params)
    if params.given_plan is not None:
        plan = params.given_plan
        return checked(plan.model_copy(update={"goal": plan.goal or driver.request.input.prompt}), bounds)
    return await ask_plan(driver, planner_of(params), params.roster, lambda plan: checked(plan, bounds))


async def _alone(driver: Driver, params: GoalParams, told: AgentParams) -> TaskResult:
    async with aclosing(driver.run([agent_work(driver, params, told=told)])) as endings:
        async for ended in endings:
            return ended.result
    raise AssertionError("`run` ends after every work has")


async def _follow(driver: Driver, params: GoalParams, plan: Plan) -> Led:
    lead = await Lead.of(driver, params, plan)
    return await lead.result(), lead
