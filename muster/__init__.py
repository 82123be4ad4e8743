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
from orchestrator.batch.request import batch_request
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import goal_request, task_request
from orchestrator.trace_view import TraceView, fold, new_view
from transport.base import Allotment, DeadLetter, Entry, Handle, TaskRecord

__all__ = [
    "Allotment", "Attachment", "Budget", "ContextRef", "DeadLetter", "Entry", "ErrorCode", "ExitCode", "Handle",
    "Muster", "MusterError", "Settings", "State", "TaskProgress", "TaskRecord", "TaskRequest", "TaskResult",
    "TraceView", "Workspace", "batch_request", "fold", "goal_request", "new_view", "task_request",
]  # fmt: skip
