"""From a result to the exit code of the command."""

from __future__ import annotations

from envelope.errors import CODES, ExitCode
from envelope.lifecycle import State
from envelope.messages import TaskResult

from .follow import Followed

BY_STATE = {
    State.COMPLETED: ExitCode.OK,
    State.CANCELLED: ExitCode.CANCELLED,
    State.EXPIRED: ExitCode.DEADLINE,
    State.ERROR: ExitCode.NOT_ACCEPTABLE,
}


def exit_code_of(result: TaskResult) -> ExitCode:
    """The first error's code decides; a state without an error speaks for itself."""
    return CODES[result.errors[0].code].exit_code if result.errors else BY_STATE[result.status]


def exit_code_after(followed: Followed) -> ExitCode:
    """130 after an interrupt, 9 for what waits for an answer, 0 for what goes on without us."""
    if followed.interrupted:
        return ExitCode.INTERRUPTED
    if followed.asks:
        return ExitCode.ANSWER_NEEDED
    return exit_code_of(followed.result) if followed.result else ExitCode.OK
