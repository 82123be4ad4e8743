"""A model is asked for a plan, by way of the agent `plan`: what it hears, the form of its answer, and what becomes of
an answer that cannot be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from envelope.errors import ErrorCode
from envelope.ids import content_key
from envelope.messages import ContextRef, ErrorInfo, TaskRequest, TaskResult, Workspace
from envelope.plan import OnFailure, Plan
from envelope.tracing.names import PLAN as PLANNING
from envelope.tracing.spans import span

from ..driver import Driver, Work, completed
from ..errors import BadInput, TaskFailed
from ..submit import GoalStep, task_request
from .checks import MAX_CHARS, MAX_REPLANS, MAX_STEPS
from .graph import as_graph
from .survey import Survey

T = TypeVar("T")

MAX_ANSWERS = 2  # of which the second one hears what was wrong with the first
MAX_WAYPOINTS, MAX_WAYPOINT_CHARS = 5, 300

PLAN = (
    "Make a plan for the goal below: a few steps, each for one agent, who sees nothing but the words of its own step,"
    " the goal, the work of the steps that it depends on, and the code. So a step's goal says all that its agent needs:"
    " what to do, where, and how to tell that it is done. Let a step depend on another when it needs what that finds or"
    " changes; steps that do not depend on each other run at the same time, and must not change the same lines. Prefer"
    " few and large steps. Change nothing yourself: your answer is the plan."
)
AGAIN = (
    "The plan below for the goal below cannot go on as it is. Make one for what is left. Steps that are done stay as"
    " they are; all new ones start from their work, and may depend on them by their step_id. Repeat none of them."
)
WAYPOINTS = (
    "Name three to five waypoints on the way to the goal below: what has to be true, one after the other, for it to be"
    " reached. A sentence each, no details. Whoever works on it may depart from them."
)


SAID = ("step_id", "title", "goal", "agent", "depends_on", "on_failure")


def plan_schema(roster: Sequence[GoalStep]) -> dict[str, Any]:
    """The form of a plan, as a model gives it. What a step may do and spend is not the model's to say."""
    text = {name: {"type": "string", "maxLength": most} for name, most in MAX_CHARS.items()}
    step = {
        "step_id": {**text["step_id"], "description": "a short name, such as a"},
        "title": {**text["title"], "description": "the step in a few words"},
        "goal": {**text["goal"], "description": "all that its agent needs to know"},
        "agent": {"type": "string", "enum": sorted(one.agent for one in roster)},
        "depends_on": {"type": "array", "items": {"type": "string"}, "description": "steps that come first"},
        "on_failure": {"type": "string", "enum": [*OnFailure], "description": "what follows if it fails"},
    }
    steps = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_STEPS,
        "items": _object(step, required=("step_id", "title", "goal", "agent", "depends_on")),
    }
    return _object({"steps": steps}, required=("steps",))


WAYPOINT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "waypoints": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_WAYPOINTS,
            "items": {"type": "string", "maxLength": MAX_WAYPOINT_CHARS},
        }
    },
    "required": ["waypoints"],
    "additionalProperties": False,
}


def _object(properties: Mapping[str, Any], *, required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


async def ask_plan(
    driver: Driver, planner: GoalStep, roster: Sequence[GoalStep], check: Callable[[Plan], Plan]
) -> Plan:
    """A plan for the driver's goal."""
    goal = driver.request.input.prompt
    prompt = f"{PLAN}\n\n# The goal\n{goal}"
    return await _asked(driver, planner, prompt, plan_schema(roster), lambda answer: check(_plan_of(answer, goal)))


async def ask_again(
    driver: Driver,
    planner: GoalStep,
    roster: Sequence[GoalStep],
    survey: Survey,
    reason: str,
    check: Callable[[Plan], Plan],
    workspace: Workspace | None,
) -> Plan:
    """A plan for what is left of it. `workspace` has what was done."""
    goal = driver.request.input.prompt
    lines = [
        f"- [{step.status}] {step.step_id}: {step.title} ({step.agent}){f' => {step.outcome}' if step.outcome else ''}"
        for step in survey.shown().steps
    ]
    listed = "\n".join(lines)
    prompt = f"{AGAIN}\n\n# The goal\n{goal}\n\n# The plan so far\n{listed}\n\n# Why it cannot go on\n{reason}"
    results = [one.result for one in survey.standings.values() if one.result]
    refs = tuple(ContextRef(type="task", id=result.task_id) for result in results)
    schema = plan_schema(roster)
    seen = driver.request.model_copy(update={"workspace": workspace})
    return await _asked(driver, planner, prompt, schema, lambda answer: check(_plan_of(answer, goal)), refs, seen)


async def ask_waypoints(driver: Driver, planner: GoalStep) -> tuple[str, ...]:
    """One call of a model that has no tools."""
    prompt = f"{WAYPOINTS}\n\n# The goal\n{driver.request.input.prompt}"
    alone = planner.model_copy(update={"auth_scope": ()})
    return await _asked(driver, alone, prompt, dict(WAYPOINT_SCHEMA), _waypoints_of)


async def _asked(
    driver: Driver,
    planner: GoalStep,
    prompt: str,
    schema: dict[str, Any],
    read: Callable[[Any], T],
    refs: tuple[ContextRef, ...] = (),
    request: TaskRequest | None = None,
) -> T:
    """What `read` makes of the answer; `TaskFailed` when there is none, or none that `read` takes. `request`: the
    driver's, unless the planner is to see another workspace."""
    fault = ""
    for _ in range(MAX_ANSWERS):
        said = f"{prompt}\n\n# Your last answer could not be used\n{fault}" if fault else prompt
        with span(PLANNING):
            answer = await _answer(driver, _work(driver, planner, said, schema, refs, request or driver.request))
        if not completed(answer):
            lost = ErrorInfo.of(ErrorCode.PLAN_INCOMPLETE, f"the planner's task ended as {answer.status}")
            raise TaskFailed(answer.errors[0] if answer.errors else lost)
        try:
            return read(answer.output.structured)
        except BadInput as e:
            fault = f"{e.message}; {e.hint}"
    why = f"the plan that the model gave cannot be carried out: {fault}"
    raise TaskFailed(ErrorInfo.of(ErrorCode.PLAN_INCOMPLETE, why, "say more in the goal, or use another model"))


async def _answer(driver: Driver, work: Work) -> TaskResult:
    async with aclosing(driver.run([work])) as endings:
        async for ended in endings:
            return ended.result
    raise AssertionError("`run` ends after every work has")


def _work(
    driver: Driver,
    planner: GoalStep,
    prompt: str,
    schema: dict[str, Any],
    refs: tuple[ContextRef, ...],
    request: TaskRequest,
) -> Work:
    child = task_request(
        parent=driver.request,
        agent=planner.agent,
        pool=planner.pool,
        prompt=prompt,
        workspace=request.workspace,
        auth_scope=planner.auth_scope,
        budget=request.budget,
        deadline_ms=driver.remaining_ms,
        idempotency_key=content_key("plan", request.task_id, prompt),
        model=request.model,
        output_schema=schema,
        context_refs=(*request.context_refs, *refs),
        attachments=request.attachments,
        priority=request.priority,
        intent="plan",
        asks=None,  # its answer is the plan: nobody is to approve it, and there is no plan file to leave
        sender=request.agent,
    )
    return Work("plan", child, "plan")


def _plan_of(answer: Any, goal: str) -> Plan:
    """`BadInput` for what is no plan, whoever checked it before. What else a step of it says does not count."""
    try:
        said = [{name: step[name] for name in SAID if name in step} for step in answer["steps"]]
        # a failure asks for another plan, unless the model has said what else it should do
        return as_graph(
            Plan.model_validate(
                {
                    "goal": goal,
                    "allow_replan": True,
                    "max_replans": MAX_REPLANS,
                    "steps": [{"on_failure": OnFailure.REPLAN, **step} for step in said],
                }
            )
        )
    except (ValidationError, KeyError, TypeError) as e:
        raise BadInput("it is no plan of this form", hint="answer with steps, each with all its fields") from e


def _waypoints_of(answer: Any) -> tuple[str, ...]:
    try:
        said = TypeAdapter(list[str]).validate_python(answer["waypoints"])
    except (ValidationError, KeyError, TypeError) as e:
        raise BadInput("they are no list of texts", hint="answer with waypoints") from e
    texts = (" ".join(each.split())[:MAX_WAYPOINT_CHARS] for each in said)
    return tuple(text for text in texts if text)[:MAX_WAYPOINTS]
