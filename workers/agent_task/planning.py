"""The plan of an attempt's session: where its plan file is, what it holds, and who may carry out a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import TypeAdapter

from ..agent.hearing import AFTER_PLAN
from ..agent.history import Prompt
from ..agent.planned import plan_name_of, plan_of, plan_text_of
from ..agent.session import Session
from ..agents.base import Agent
from ..delivery.attempt import Attempt, session_of
from ..recording.tape import Tape
from ..tools.base import Tool
from ..tools.plan_file import knowing_plan_file, path_of, plans
from ..tools.planning import Planning

PATH = TypeAdapter(str)


def planning_of(session: Session, attempt: Attempt, agents: Mapping[str, Agent]) -> Planning:
    """What the planning tools know of a session. Its next agent is `build` where this one can only plan."""
    return Planning(
        path=session.plan_file or path_of(session_of(attempt.request)),
        text=plan_text_of(session),
        name=plan_name_of(session),
        plan=plan_of(session),
        agents=sorted(agent.name for agent in agents.values() if not agent.hidden),
        agent=AFTER_PLAN if plans(attempt.guard) else attempt.agent.name,
    )


async def with_plan_file(session: Session, attempt: Attempt, tape: Tape) -> Session:
    """The session, whose agent is told where to write its plan if that is all that it may write."""
    if session.plan_file or not plans(attempt.guard):
        return session

    async def path() -> str:
        return path_of(session_of(attempt.request))

    # a task that is played again has another name, and must hear of the same file
    return session.model_copy(update={"plan_file": await tape.kept("plan_file", PATH, path)})


def planning_tools(tools: Mapping[str, Tool], planning: Planning, attempt: Attempt) -> dict[str, Tool]:
    """The tools as they are where there is no plan file and will be none."""
    only = plans(attempt.guard)
    return knowing_plan_file(tools, planning, only=only) if only or planning.text else dict(tools)


def carrying_out(prompt: Prompt, earlier: Session, attempt: Attempt) -> Prompt:
    """The prompt of whoever goes on with an approved plan, with the place where that stands."""
    is_handed_over = earlier.outcome is not None and earlier.outcome.next_agent == attempt.agent.name
    if not is_handed_over or not earlier.plan_file:
        return prompt
    return replace(prompt, text=f"{prompt.text}\n\nThe approved plan: {earlier.plan_file} (for the tool read alone)")
