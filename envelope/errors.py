"""What can go wrong, as codes that travel and as exceptions that do not.

A code on the wire says three things: what happened, whether another try may help, and whose turn it is. Class names
never travel.

    MusterError
    ├── EnvelopeError
    │   ├── DecodeError         bytes that are no message of ours
    │   ├── BadSignature        unsigned, forged, or signed with a key that is not known
    │   └── IllegalMove         a state change that the life cycle does not have
    └── ScopeExceeded           a grant that the parent does not hold
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from .state import State

# Of an `OSError`, when a disk is full: no name, mode or other folder on it is to blame.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
FREE = "free some; `df` says which disk it is"


def told_of_file(error: OSError, place: object, message: str, hint: str = "") -> tuple[str, str]:
    """Sentence and hint: those given, unless the disk of `place` is full."""
    return (f"no space left in {place}", FREE) if error.errno in NO_ROOM else (f"{message}: {error.strerror}", hint)


def require_room(error: OSError, place: object) -> None:
    """For who tells of `error` as of a name that cannot be used: a full disk goes on as what it is, with its place."""
    if error.errno in NO_ROOM:
        raise OSError(error.errno, error.strerror, str(place)) from error


class ExitCode(IntEnum):
    """What a command of ours returns to the shell; the one table for CLI, CI and docs."""

    OK = 0
    NOT_ACCEPTABLE = 1
    USAGE = 2
    BUDGET = 3
    DEADLINE = 4
    CANCELLED = 5
    INFRASTRUCTURE = 6
    REFUSED = 7
    PARTIAL = 8
    ANSWER_NEEDED = 9
    INTERRUPTED = 130


class Turn(StrEnum):
    """Who can do something about an error."""

    CALLER = "caller"
    MODEL = "model"
    OPERATOR = "operator"
    MUSTER = "muster"


class ErrorCode(StrEnum):
    BAD_INPUT = "bad_input"
    REFUSED = "refused"
    OUT_OF_SCOPE = "out_of_scope"
    BUDGET = "budget"
    TURN_LIMIT = "turn_limit"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    POISON = "poison"
    MODEL_AUTH = "model_auth"
    MODEL_UNKNOWN = "model_unknown"
    MODEL_FAILED = "model_failed"
    NO_ANSWER = "no_answer"
    PLAN_INCOMPLETE = "plan_incomplete"
    ENGINE = "engine"  # a program of others that leads the session
    SANDBOX = "sandbox"
    SETUP_FAILED = "setup_failed"
    RECIPE_FAILED = "recipe_failed"
    REPOSITORY = "repository"
    CHILD_FAILED = "child_failed"
    COLLISION = "collision"
    BROKEN_BASE = "broken_base"  # the gate cannot run on it
    GATE_FAILED = "gate_failed"
    PARTIAL = "partial"
    INTERNAL = "internal"
    UNKNOWN = "unknown"  # of a newer sender; its own word stands before the message


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """`state` is how a task ends whose first error has this code."""

    retryable: bool
    turn: Turn
    exit_code: ExitCode
    state: State = State.ERROR


CODES: dict[ErrorCode, CodeInfo] = {
    ErrorCode.BAD_INPUT: CodeInfo(False, Turn.CALLER, ExitCode.USAGE),
    ErrorCode.REFUSED: CodeInfo(False, Turn.CALLER, ExitCode.REFUSED),
    ErrorCode.OUT_OF_SCOPE: CodeInfo(False, Turn.CALLER, ExitCode.REFUSED),
    ErrorCode.BUDGET: CodeInfo(True, Turn.CALLER, ExitCode.BUDGET),
    ErrorCode.TURN_LIMIT: CodeInfo(True, Turn.CALLER, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.DEADLINE: CodeInfo(True, Turn.CALLER, ExitCode.DEADLINE, State.EXPIRED),
    ErrorCode.CANCELLED: CodeInfo(True, Turn.CALLER, ExitCode.CANCELLED, State.CANCELLED),
    ErrorCode.POISON: CodeInfo(False, Turn.OPERATOR, ExitCode.INFRASTRUCTURE),
    ErrorCode.MODEL_AUTH: CodeInfo(False, Turn.OPERATOR, ExitCode.USAGE),
    ErrorCode.MODEL_UNKNOWN: CodeInfo(False, Turn.OPERATOR, ExitCode.USAGE),
    ErrorCode.MODEL_FAILED: CodeInfo(True, Turn.OPERATOR, ExitCode.INFRASTRUCTURE),
    ErrorCode.NO_ANSWER: CodeInfo(True, Turn.MODEL, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.PLAN_INCOMPLETE: CodeInfo(True, Turn.MODEL, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.ENGINE: CodeInfo(True, Turn.OPERATOR, ExitCode.INFRASTRUCTURE),
    ErrorCode.SANDBOX: CodeInfo(True, Turn.OPERATOR, ExitCode.INFRASTRUCTURE),
    ErrorCode.SETUP_FAILED: CodeInfo(False, Turn.CALLER, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.RECIPE_FAILED: CodeInfo(False, Turn.CALLER, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.REPOSITORY: CodeInfo(False, Turn.CALLER, ExitCode.USAGE),
    ErrorCode.CHILD_FAILED: CodeInfo(False, Turn.MODEL, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.COLLISION: CodeInfo(False, Turn.CALLER, ExitCode.PARTIAL),
    ErrorCode.BROKEN_BASE: CodeInfo(False, Turn.CALLER, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.GATE_FAILED: CodeInfo(False, Turn.MODEL, ExitCode.NOT_ACCEPTABLE),
    ErrorCode.PARTIAL: CodeInfo(True, Turn.CALLER, ExitCode.PARTIAL),
    ErrorCode.INTERNAL: CodeInfo(True, Turn.MUSTER, ExitCode.INFRASTRUCTURE),
    ErrorCode.UNKNOWN: CodeInfo(False, Turn.OPERATOR, ExitCode.INFRASTRUCTURE),
}


class MusterError(Exception):
    """One sentence that says what; `hint` says what to try next. `code` is what a result says of it."""

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class EnvelopeError(MusterError): ...


class DecodeError(EnvelopeError):
    code = ErrorCode.BAD_INPUT


class BadSignature(EnvelopeError):
    code = ErrorCode.REFUSED


class IllegalMove(EnvelopeError): ...


class ScopeExceeded(MusterError):
    code = ErrorCode.OUT_OF_SCOPE


def error_text(message: str, hint: str = "") -> str:
    """What a program of ours writes to stderr before it ends; the supervisor reads it, too."""
    return f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
