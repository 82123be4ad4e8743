"""The ways in which planning and acting go together, each from a goal to one result (see `modes.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

from envelope.agent_params import AgentParams
from envelope.errors import CODES
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.plan import OnFailure, Plan, PlanStep, StepStatus

from ..driver import Driver
from ..errors import BadInput
from ..goal_work import agent_work, title_of
from ..submit import GoalParams, GoalStep
from .asking import ask_again, ask_plan, ask_waypoints
from .checks import Bounds, checked
from .conduct import Conduct
from .modes import PlanMode
from .report import report_text
from .steps import Steps
from .survey import Standing, Survey

MAX_REPLANS = 3  # what four plans did not reach, a fifth will not
LIVING_GOAL_CHARS = 1_000  # of a step in a plan that stands in every request to a model; as `plan_update` has it
GOAL_STEP = "goal"


async def drive_plan(driver: Driver, params: GoalParams) -> TaskResult:
    """What the agents of a planned goal come to, as one agent's result."""
    return await DRIVES[params.plan](driver, params)


async def _layered(driver: Driver, params: GoalParams) -> TaskResult:
    return await _follow(driver, params, await _first_plan(driver, params))


async def _on_demand(driver: Driver, params: GoalParams) -> TaskResult:
    """A plan of one step, the goal: only when that fails there is more to plan."""
    goal = driver.request.input.prompt
    whole = PlanStep(
        step_id=GOAL_STEP, title=title_of(goal), goal=goal, agent=params.agent, on_failure=OnFailure.REPLAN
    )
    return await _follow(driver, params, Plan(goal=goal, steps=(whole,)))


async def _light(driver: Driver, params: GoalParams) -> TaskResult:
    waypoints = await ask_waypoints(driver, _planner(params))
    return await _alone(driver, params, AgentParams(waypoints=waypoints))


async def _living(driver: Driver, params: GoalParams) -> TaskResult:
    plan = await _first_plan(driver, params)
    steps = tuple(step.model_copy(update={"goal": step.goal[:LIVING_GOAL_CHARS]}) for step in plan.steps)
    return await _alone(driver, params, AgentParams(plan=plan.model_copy(update={"steps": steps})))


DRIVES: Mapping[PlanMode, Callable[[Driver, GoalParams], Awaitable[TaskResult]]] = {
    PlanMode.LAYERED: _layered,
    PlanMode.ON_DEMAND: _on_demand,
    PlanMode.LIGHT: _light,
    PlanMode.LIVING: _living,
}


async def _first_plan(driver: Driver, params: GoalParams) -> Plan:
    bounds = _bounds(driver, params)
    if params.given_plan is not None:
        return checked(params.given_plan, bounds)
    return await ask_plan(driver, _planner(params), params.roster, lambda plan: checked(plan, bounds))


async def _alone(driver: Driver, params: GoalParams, told: AgentParams) -> TaskResult:
    async with aclosing(driver.run([agent_work(driver, params, told=told)])) as endings:
        async for ended in endings:
            return ended.result
    raise AssertionError("`run` ends after every work has")


async def _follow(driver: Driver, params: GoalParams, plan: Plan) -> TaskResult:
    """Carry a plan out, and others after it for what fails."""
    steps = await Steps.of(driver, params)
    conduct = Conduct(driver, steps)
    survey = await conduct.carry_out(plan)
    for _ in range(MAX_REPLANS):
        failed = survey.failed(OnFailure.REPLAN)
        if failed is None or survey.failed(OnFailure.STOP):
            break
        kept = {one.step.step_id for one in survey.standings.values() if one.status in KEPT}
        plan = await _planned_again(driver, params, survey, failed, kept)
        survey = await conduct.carry_out(plan, kept)
    return await _result(driver, steps, survey)


KEPT = (StepStatus.DONE, StepStatus.SKIPPED)


async def _planned_again(driver: Driver, params: GoalParams, survey: Survey, failed: Standing, kept: set[str]) -> Plan:
    """What is done stays as it is, and comes first; what the model says of it does not count."""
    before = survey.plan
    bounds = _bounds(driver, params)

    def joined(plan: Plan) -> Plan:
        stay = tuple(step for step in before.steps if step.step_id in kept)
        new = tuple(step for step in plan.steps if step.step_id not in kept)
        if not new:
            raise BadInput("it has no new step", hint="plan what is left to do")
        whole = before.model_copy(update={"steps": (*stay, *new), "version": before.version + 1})
        return checked(whole, bounds)

    return await ask_again(driver, _planner(params), params.roster, survey, _reason(failed), joined)


def _reason(failed: Standing) -> str:
    return f"The step {failed.step.step_id!r} failed: {failed.outcome}"


async def _result(driver: Driver, steps: Steps, survey: Survey) -> TaskResult:
    """One result of all; also of a plan that was stopped, with what was done until then."""
    failed = survey.failed(OnFailure.STOP) or survey.failed(OnFailure.REPLAN)
    errors = (_error(failed),) if failed and failed.failure else ()
    claim = driver.delivery.claim
    results = [one.result for one in survey.standings.values() if one.result]
    alone = len(survey.standings) == 1 and results
    whole = Output(text=report_text(survey), structured={"plan": survey.shown().model_dump(mode="json")})
    return TaskResult(
        trace_id=claim.lease.trace_id,
        task_id=results[-1].task_id if results else claim.lease.task_id,
        attempt=claim.lease.attempt,
        status=CODES[errors[0].code].state if errors else State.COMPLETED,
        errors=errors,
        output=results[0].output if alone else whole,
        attachments=tuple(attached for result in results for attached in result.attachments),
        provenance=tuple(each for result in results for each in result.provenance),
        patch=await steps.patch(survey.done),
    )


def _error(failed: Standing) -> ErrorInfo:
    assert failed.failure
    error = failed.failure.error
    hint = error.hint or (f"see it: muster task show {failed.result.task_id}" if failed.result else "")
    return error.model_copy(update={"message": f"the step {failed.step.step_id!r}: {error.message}", "hint": hint})


def _planner(params: GoalParams) -> GoalStep:
    if params.planner is None:
        raise BadInput("the goal names nobody who plans", hint="submit it with `muster run --plan`")
    return params.planner


def _bounds(driver: Driver, params: GoalParams) -> Bounds:
    request = driver.request
    return Bounds(
        agents={step.agent: step.auth_scope for step in params.roster},
        scope=request.auth_scope,
        max_cost_microusd=request.budget.max_cost_microusd,
        deadline_ms=driver.remaining_ms,
    )
