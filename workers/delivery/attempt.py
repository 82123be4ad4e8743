"""What one attempt at one task works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envelope.messages import TaskRequest
from transport.base import Claim

from ..agents.base import Agent
from ..permissions.guard import Guard
from ..sandboxes.of_task import TaskSandbox
from .reporter import Reporter


@dataclass(frozen=True, slots=True)
class Attempt:
    claim: Claim
    request: TaskRequest
    agent: Agent
    guard: Guard
    sandbox: TaskSandbox
    reporter: Reporter
    is_stopped: Callable[[], bool] = lambda: False  # once it is cut off: is that the end of its task?


def session_of(request: TaskRequest) -> str:
    """A session is named after the task that opened it."""
    return request.resume_token or request.task_id


def resume_token(claim: Claim, request: TaskRequest, reporter: Reporter) -> str:
    """The session that the task leaves; empty while there is nothing of it."""
    exists = reporter.last_checkpoint or claim.checkpoint or claim.session
    return session_of(request) if exists else ""
