"""Who plans a goal, and who may do a step of its plan."""

from __future__ import annotations

from collections.abc import Iterable

from envelope.agents import AgentCard, WorkerCard
from envelope.plan import Plan

from ..catalogue import agent_named, agents_of
from ..errors import BadInput
from ..submit import PLAN, Planning, scope_of
from .checks import Bounds, checked
from .graph import as_graph
from .modes import PlanMode

DO_STEPS = frozenset({"primary", "subagent", "all"})


def planning_of(
    mode: PlanMode,
    agent: AgentCard,
    workers: Iterable[WorkerCard],
    *,
    commit: str = "",
    tenant: str = "",
    project: Iterable[AgentCard] = (),
    plan: Plan | None = None,
) -> Planning | None:
    """How a goal of `agent` is planned; None for not at all. `BadInput` when the agent is the one that plans, or when
    `plan`, the first one, names agents that there are not."""
    if mode is PlanMode.NONE:
        return None
    require_other(mode, agent.name)
    known = list(workers)
    agents = agents_of(known, commit=commit, tenant=tenant) | {card.name: card for card in project}
    roster = roster_among(agents.values())
    if plan is not None:
        plan = checked(as_graph(plan), Bounds(agents={card.name: scope_of(card) for card in roster}))
    return Planning(mode, agent_named(PLAN, known), roster, plan)


def require_other(mode: PlanMode, agent: str) -> None:
    """`BadInput` when the agent that plans would be led by a plan."""
    if mode is not PlanMode.NONE and agent == PLAN:
        hint = "leave --plan out to approve its plan yourself, or name the agent that does the work"
        raise BadInput(f"the agent {PLAN!r} plans by itself", hint=hint)


def roster_among(agents: Iterable[AgentCard]) -> list[AgentCard]:
    """Those who may do a step, by name: all that people or agents start, but for the one that plans."""
    found = {card.name: card for card in agents if card.mode in DO_STEPS and not card.hidden and card.name != PLAN}
    return [found[name] for name in sorted(found)]
