"""Somebody wants the rest of a goal planned again: the steps that are under way are stopped, with the reason."""

from __future__ import annotations

from envelope.lifecycle import TERMINAL
from transport.base import TaskRecord, Transport

from ..errors import BadInput
from ..submit import DRIVERS, RUN, GoalParams, params_of
from .modes import PlanMode
from .survey import REPLAN_WORD

MAX_CHILDREN = 1_000  # of a goal: four plans of fifty steps, tried three times, and the gate's runs


async def plan_again(transport: Transport, task: TaskRecord, reason: str, *, by: str) -> list[TaskRecord]:
    """Stop what is under way of the goal that `task` is, or is a step of; the driver then has the rest planned again.

    Those that were stopped. `BadInput` for a goal without such a plan, and for one of which no step is under way.
    """
    goal_id = task.task_id if task.pool == DRIVERS else task.parent_task_id
    goal = await transport.request(goal_id) if goal_id else None
    if goal is None or goal.agent != RUN:
        raise BadInput(f"the task {task.task_id} is no goal, nor a step of one", hint="see: muster task list")
    params = params_of(GoalParams, goal)
    is_fixed = params.given_plan is not None and not params.given_plan.allow_replan
    if is_fixed or params.plan not in (PlanMode.LAYERED, PlanMode.ON_DEMAND):
        raise BadInput(
            f"the goal {goal.task_id} has no plan that could be made again",
            hint="start it with --plan layered or on-demand; say something to its agent with:"
            f' muster task prompt {goal.task_id} "…"',
        )
    steps = [one for one in await transport.tasks(trace_id=goal.trace_id, limit=MAX_CHILDREN) if _is_step(one, params)]
    stopped = [one for one in steps if one.parent_task_id == goal.task_id and one.state not in TERMINAL]
    if not stopped:
        raise BadInput(f"no step of the goal {goal.task_id} is under way", hint="see: muster task show")
    for one in stopped:
        await transport.cancel(one.task_id, by=by, reason=f"{REPLAN_WORD}{reason}")
    return stopped


def _is_step(task: TaskRecord, params: GoalParams) -> bool:
    return task.agent in {step.agent for step in params.roster}
