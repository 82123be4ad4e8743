"""What workers tell about themselves, so that the orchestrator can check names without importing them."""

from __future__ import annotations

from typing import Literal

from .scope import Scope
from .wire import Wire


class AgentCard(Wire):
    name: str
    mode: Literal["primary", "subagent", "all", "recipe", "driver"]
    pool: str
    description: str = ""
    hidden: bool = False
    auth_scope: Scope = ()  # what the agent gets when its caller names no scope


class WorkerCard(Wire):
    """One live worker process (or orchestrator) and what it serves."""

    worker: str
    pool: str
    slots: int
    agents: tuple[AgentCard, ...] = ()
    host: str = ""
    pid: int = 0
    metrics_port: int = 0
    version: str = ""
    model: str = ""  # what answers when a task names none
