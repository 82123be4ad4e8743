"""A goal as somebody names it, made into a request by what live workers offer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

from envelope.agents import AgentCard, WorkerCard
from envelope.messages import TaskRequest
from envelope.plan import Plan

from .catalogue import agent_named
from .errors import BadInput
from .planner.modes import PlanMode, mode_named
from .planner.team import planning_of
from .settings import Settings
from .submit import BUILD, PLAN, GoalFields, Planning, goal_request


@dataclass(frozen=True, slots=True)
class Doers:
    """Who works on a goal: its agent, how that plans, and who does what it has planned, where that is another."""

    agent: AgentCard
    planning: Planning | None
    then: AgentCard | None


def doers_of(
    agent: AgentCard | str,
    workers: Iterable[WorkerCard],
    *,
    plan: PlanMode | str = PlanMode.NONE,
    given_plan: Plan | None = None,
    commit: str = "",
    tenant: str = "",
    project: Iterable[AgentCard] = (),
) -> Doers:
    """For a goal on a tenant's commit, by an agent's card or its name. What the agent `plan` plans, `build` does.

    `given_plan`: the first plan, made by a person. `project`: the agents of the repository, where the caller read them.
    `BadInput` for a plan that could not be carried out, `UnknownName` for an agent that nobody offers.
    """
    known = list(workers)
    if isinstance(agent, str):
        agent = agent_named(agent, known, commit=commit, tenant=tenant, project=project)
    mode = _led_by(mode_named(plan), given_plan)
    planning = planning_of(mode, agent, known, commit=commit, tenant=tenant, project=project, plan=given_plan)
    return Doers(agent, planning, agent_named(BUILD, known) if agent.name == PLAN else None)


def goal_for(goal: str, doers: Doers, settings: Settings, **fields: Unpack[GoalFields]) -> TaskRequest:
    return goal_request(goal, agent=doers.agent, settings=settings, then=doers.then, planning=doers.planning, **fields)


def _led_by(plan: PlanMode, given: Plan | None) -> PlanMode:
    if given is None:
        return plan
    if plan not in (PlanMode.NONE, PlanMode.LAYERED):
        raise BadInput(f"the steps of a given plan are dispatched, not {plan}", hint=f"say {PlanMode.LAYERED}")
    return PlanMode.LAYERED
