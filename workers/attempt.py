"""What one attempt at one task works with."""

from __future__ import annotations

from dataclasses import dataclass

from envelope.messages import TaskRequest
from transport.base import Claim

from .agents.base import Agent
from .permissions.guard import Guard
from .reporter import Reporter
from .task_sandbox import TaskSandbox


@dataclass(frozen=True, slots=True)
class Attempt:
    claim: Claim
    request: TaskRequest
    agent: Agent
    guard: Guard
    sandbox: TaskSandbox
    reporter: Reporter
