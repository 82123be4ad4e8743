"""Which session a word to a task is for, and a task that goes on with one that has ended."""

from __future__ import annotations

import time

from envelope.agent_params import AgentParams, inherited
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskRequest
from transport.base import Transport

from .errors import BadInput
from .submit import DRIVERS, RECIPE, VERIFY, GoalParams, intent_of, is_goal, params_of

MAX_CHILDREN = 1000  # of a goal: its agent is among the first
COMPACT = "/compact"  # a prompt that changes no file


async def listener(transport: Transport, task_id: str) -> TaskRequest:
    """The request of the task that a word to this one is for: itself, or the agent of a goal.

    `BadInput` for what has no session: batches and recipes.
    """
    request = await transport.request(task_id)
    if is_goal(request):
        request = await _agent_of(transport, request)
    if request.recipient == DRIVERS or request.agent in (RECIPE, VERIFY):
        raise BadInput(f"the task {task_id} is a {request.agent}, and no agent that can be talked to")
    return request


def undoing(request: TaskRequest, params: AgentParams, *, goal: str = "") -> TaskRequest:
    """A task that takes the session back or forth again, as `params` say. No model is asked. `goal`: as in
    `going_on`."""
    turn = params.revert_to
    words = "/undo" if params.undo else "/redo" if turn is None else f"go back to the end of turn {turn}"
    again = going_on(request, words, goal=goal)
    told = again.input.model_copy(update={"params": {**again.input.params, **params.model_dump(exclude_defaults=True)}})
    return again.model_copy(update={"input": told})


def going_on(request: TaskRequest, prompt: str, *, goal: str = "") -> TaskRequest:
    """An agent's task of its own in the session of an ended one, with the same grants and limits.

    `goal`: the one whose terms hold for whoever goes on after it (see `resume.py`).
    """
    params = inherited(request.input.params) | ({"goal": goal} if goal else {})
    new = {
        "task_id": new_task_id(),
        "trace_id": new_trace_id(near=request.trace_id),
        "parent_task_id": None,
        "sender": "api",
        "intent": intent_of(prompt) or request.intent,
        "input": TaskInput(prompt=prompt, params=params),
        "resume_token": session_of(request),
        "idempotency_key": "",
        "batch_id": "",
        "retry_of": None,
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    return request.model_copy(update=new)


def without_people(request: TaskRequest) -> TaskRequest:
    """The same task where nobody answers: what a rule asks is denied, and at its cap it ends."""
    budget = request.budget.model_copy(update={"waits_at_cap": False})
    return request.model_copy(update={"asks": None, "budget": budget})


def session_of(request: TaskRequest) -> str:
    """A session is named after the task that opened it."""
    return request.resume_token or request.task_id


async def _agent_of(transport: Transport, goal: TaskRequest) -> TaskRequest:
    """Whoever worked on it last: after a plan that was approved, the agent that carries it out in the same session."""
    params = params_of(GoalParams, goal)
    steps = [step.agent for step in (params.then, params) if step]
    tasks = await transport.tasks(trace_id=goal.trace_id, limit=MAX_CHILDREN)
    own = {task.agent: task.task_id for task in tasks if task.parent_task_id == goal.task_id}
    if found := next((own[agent] for agent in steps if agent in own), None):
        return await transport.request(found)
    if params.session:  # it waits for its turn there
        return await transport.request(await transport.session_task(params.session))
    raise BadInput(f"the goal {goal.task_id} has started no agent yet", hint="try again in a moment")
