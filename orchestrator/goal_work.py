"""The task of the agent that works on a goal."""

from __future__ import annotations

from typing import Any

from envelope.agent_params import AgentParams
from envelope.ids import content_key
from envelope.messages import TaskResult

from .driver import Driver, Work
from .submit import GoalParams, GoalStep, params_of, task_request

CARRY_OUT = (
    "Your plan was approved; carry it out now. You are the engineer who makes the change: your workspace can be"
    " written, you may edit files and run commands, and what was said above of planning only no longer holds. Read a"
    " file before you change it, make the smallest change that does the job, run the tests that cover it, and report"
    " what you changed, how you checked it, and what you did not do."
)
TITLE_CHARS = 72  # git's custom for the first line of a commit


def agent_work(
    driver: Driver,
    step: GoalStep,
    *,
    plan: TaskResult | None = None,
    told: AgentParams = AgentParams(),
    session: str = "",
) -> Work:
    """`plan`: the result of the agent whose approved plan is carried out. `told`: what else the agent hears.
    `session`: the one that it goes on with."""
    request = driver.request
    goal = params_of(GoalParams, request)
    resumed = plan.resume_token if plan else session
    own = {"record": goal.record, "replay": goal.replay, "temperature": goal.temperature, "keeps_work": bool(resumed)}
    own["untitled"] = bool(request.batch_id)  # a sample of a suite is known by its case, variant and number
    params: dict[str, Any] = told.model_copy(update=own).model_dump(mode="json", exclude_defaults=True)
    child = task_request(
        parent=request,
        agent=step.agent,
        pool=step.pool,
        prompt=CARRY_OUT if plan else request.input.prompt,
        params=params,
        resume_token=resumed,
        workspace=request.workspace,
        auth_scope=step.auth_scope,
        budget=request.budget,
        deadline_ms=driver.remaining_ms,
        idempotency_key=content_key("goal", request.task_id, *([plan.task_id] if plan else [])),
        model=request.model,
        output_schema=request.output_schema,
        context_refs=request.context_refs,
        attachments=request.attachments,
        priority=request.priority,
        sender=request.agent,
    )
    return Work("agent", child, title_of(request.input.prompt or request.intent))


def title_of(prompt: str) -> str:
    return (prompt.strip().splitlines() or [""])[0][:TITLE_CHARS]
