"""A plan: a graph of steps, each a task to be. A plain list is a chain."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from .budget import Budget
from .scope import Scope
from .wire import Wire


class OnFailure(StrEnum):
    RETRY = "retry"
    SKIP = "skip"
    REPLAN = "replan"
    STOP = "stop"


class StepStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class PlanStep(Wire):
    step_id: str
    title: str
    goal: str
    agent: str
    depends_on: tuple[str, ...] = ()
    auth_scope: Scope | None = None
    budget: Budget = Budget()
    deadline_ms: Annotated[int, Field(gt=0)] | None = None
    on_failure: OnFailure = OnFailure.STOP
    status: StepStatus = StepStatus.PENDING
    outcome: str = ""


class Plan(Wire):
    """`version` grows with every change; an update names the version that it read."""

    goal: str
    version: int = 1
    allow_replan: bool = False
    max_replans: int = 0
    steps: tuple[PlanStep, ...] = ()
