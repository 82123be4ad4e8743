"""Muster: coding agents as a fleet. The public client, loaded when it is first asked for.

async with Muster.connect() as muster:
    handles = await muster.submit_many([task_request(agent="build", pool="build", prompt="…", deadline_ms=600_000)])
    results = await muster.gather(handles)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envelope.budget import Budget
    from envelope.errors import ErrorCode, ExitCode, MusterError
    from envelope.lifecycle import State
    from envelope.messages import Attachment, ContextRef, TaskProgress, TaskRequest, TaskResult, Workspace
    from orchestrator.client import Muster
    from orchestrator.session import Session, fold, new_session
    from orchestrator.settings import Settings
    from orchestrator.submit import batch_request, goal_request, task_request
    from transport.base import Entry, Handle, TaskRecord

__all__ = [
    "Attachment",
    "Budget",
    "ContextRef",
    "Entry",
    "ErrorCode",
    "ExitCode",
    "Handle",
    "Muster",
    "MusterError",
    "Session",
    "Settings",
    "State",
    "TaskProgress",
    "TaskRecord",
    "TaskRequest",
    "TaskResult",
    "Workspace",
    "batch_request",
    "fold",
    "goal_request",
    "new_session",
    "task_request",
]

_HOME = {
    "envelope.budget": ("Budget",),
    "envelope.errors": ("ErrorCode", "ExitCode", "MusterError"),
    "envelope.lifecycle": ("State",),
    "envelope.messages": ("Attachment", "ContextRef", "TaskProgress", "TaskRequest", "TaskResult", "Workspace"),
    "orchestrator.client": ("Muster",),
    "orchestrator.session": ("Session", "fold", "new_session"),
    "orchestrator.settings": ("Settings",),
    "orchestrator.submit": ("batch_request", "goal_request", "task_request"),
    "transport.base": ("Entry", "Handle", "TaskRecord"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
