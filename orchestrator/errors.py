"""What can go wrong on the caller's side, before or beside any task.

MusterError
└── OrchestratorError
    ├── BadInput            what a person wrote cannot be used
    │   ├── BadBatchFile    names the file and the field
    │   ├── BadSettings     a setting or the user's configuration file
    │   └── UnknownName     an agent or pool that nobody serves
    └── TaskFailed          a task that the work cannot go on without has ended badly; carries its error

How a task ended badly travels as `ErrorInfo` in its result; these are for the process that sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from envelope.errors import ExitCode, MusterError
from envelope.messages import ErrorInfo


class OrchestratorError(MusterError):
    exit_code = ExitCode.INFRASTRUCTURE


class BadInput(OrchestratorError):
    exit_code = ExitCode.USAGE


class BadBatchFile(BadInput): ...


class BadSettings(BadInput): ...


class UnknownName(BadInput): ...


class TaskFailed(OrchestratorError):
    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message, hint=error.hint)
        self.error = error


def near_miss(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not among the known ones: the closest, else all."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
