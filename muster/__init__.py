"""Muster: coding agents as a fleet. The public client; the command line uses the same one.

from muster import Muster

async with Muster.connect() as muster:
    handles = await muster.submit_many(
        [{"agent": "build", "prompt": "Fix the typo in the README.", "deadline_ms": 600_000}]
    )
    results = await muster.gather(handles)
"""

from envelope.budget import Budget
from envelope.errors import ErrorCode, ExitCode, MusterError
from envelope.lifecycle import State
from envelope.messages import Attachment, ContextRef, TaskProgress, TaskRequest, TaskResult, Workspace
from envelope.plan import Plan, PlanStep
from orchestrator.batch.file import parse_batch
from orchestrator.batch.plan import Planned, Sources
from orchestrator.batch.request import batch_request
from orchestrator.budgets import Funds
from orchestrator.client import Muster
from orchestrator.costs import Cost
from orchestrator.errors import Answered
from orchestrator.evaluation.file import parse_suite
from orchestrator.gathering import Gathered, Policy, Want
from orchestrator.planner.modes import PlanMode
from orchestrator.session.fold import Session, apply, apply_all
from orchestrator.session.task import Spent, TaskView
from orchestrator.sessions import SessionPage, SessionRow
from orchestrator.settings import Settings
from orchestrator.submit import goal_request, task_request
from transport.base import Allotment, DeadLetter, Entry, Handle, TaskRecord
from transport.money import Ledger

__all__ = [
    "Allotment", "Answered", "Attachment", "Budget", "ContextRef", "Cost", "DeadLetter", "Entry", "ErrorCode",
    "ExitCode", "Funds", "Gathered", "Handle", "Ledger", "Muster", "MusterError", "Plan", "PlanMode", "PlanStep",
    "Planned", "Policy", "Session", "SessionPage", "SessionRow", "Settings", "Sources", "Spent", "State",
    "TaskProgress", "TaskRecord", "TaskRequest", "TaskResult", "TaskView", "Want", "Workspace", "apply", "apply_all",
    "batch_request", "goal_request", "parse_batch", "parse_suite", "task_request",
]  # fmt: skip
