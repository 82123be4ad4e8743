"""What callers say of tasks, made into requests by what the fleet knows: agents' cards, and where sessions are."""

from __future__ import annotations

import time
from collections.abc import Sequence

from envelope.agents import WorkerCard
from envelope.messages import TaskRequest
from transport.base import Transport

from .catalogue import agent_named
from .resume import goal_id
from .submit import TaskFields, is_resolved, resolved, task_request


async def requests_from(transport: Transport, tasks: Sequence[TaskRequest | TaskFields]) -> list[TaskRequest]:
    """In their order. `UnknownName` for an agent that no live worker offers, where the caller leaves things to it."""
    tasks = [await _on_terms(transport, task) for task in tasks]
    workers = [] if all(map(is_resolved, tasks)) else await transport.workers()
    made = [_request(task, workers, await _near(transport, task)) for task in tasks]
    # the queue refuses what was made long ago, and a caller may have kept a request for later
    fresh = {"created_at_ms": time.time_ns() // 1_000_000}
    is_kept = (isinstance(task, TaskRequest) for task in tasks)
    return [request.model_copy(update=fresh) if kept else request for request, kept in zip(made, is_kept, strict=True)]


async def _on_terms(transport: Transport, task: TaskRequest | TaskFields) -> TaskRequest | TaskFields:
    """A task that goes on with a session says which goal's terms hold for whoever goes on after it."""
    if isinstance(task, TaskRequest) or not (session := task.get("resume_token", "")):
        return task
    goal = await goal_id(transport, await transport.request(session))
    return {**task, "params": {**task.get("params", {}), "goal": goal}} if goal else task


async def _near(transport: Transport, task: TaskRequest | TaskFields) -> str:
    """The trace of the session that a task goes on with, by which the queue finds both."""
    session = "" if isinstance(task, TaskRequest) else task.get("resume_token", "")
    return (await transport.record(session)).trace_id if session else ""


def _request(task: TaskRequest | TaskFields, workers: Sequence[WorkerCard], near: str) -> TaskRequest:
    if not is_resolved(task):
        agent = task.agent if isinstance(task, TaskRequest) else task.get("agent", "")
        workspace = task.workspace if isinstance(task, TaskRequest) else task.get("workspace")
        tenant = task.tenant if isinstance(task, TaskRequest) else task.get("tenant") or "default"
        commit = workspace.base if workspace else ""
        card = agent_named(agent, workers, by_person=False, commit=commit, tenant=tenant)
        return resolved(task, card, near=near)
    return task if isinstance(task, TaskRequest) else task_request(near=near, **task)
