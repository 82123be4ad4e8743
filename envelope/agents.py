"""What workers tell about themselves, so that the orchestrator can check names without importing them."""

from __future__ import annotations

from .scope import Scope
from .wire import Wire


class AgentCard(Wire):
    """`mode` is primary, subagent, all, recipe or driver.

    It is no closed list: one worker of a newer fleet must not make all the others' cards unreadable.
    """

    name: str
    mode: str
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


class CommandCard(Wire):
    """What the orchestrator may know about a command: who runs it. `source` is builtin, repository or user.

    `agent` and `model` are empty, and `subtask` is None, where the command's file says nothing.
    """

    name: str
    description: str = ""
    agent: str = ""
    model: str = ""
    subtask: bool | None = None
    source: str = "builtin"
