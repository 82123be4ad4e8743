"""Which code an exception travels as: the one table of the workers. Class names never leave the process."""

from __future__ import annotations

from envelope.errors import ErrorCode, MusterError, ScopeExceeded
from envelope.messages import ErrorInfo
from repo.errors import RepoError
from sandbox.errors import SandboxError, SetupFailed
from transport.errors import NotFound, Refused

from .errors import BadAgent, BadInput, NoModel

# The first row that fits counts.
CODE_OF: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (BadInput, ErrorCode.BAD_INPUT),
    (BadAgent, ErrorCode.BAD_INPUT),
    (NoModel, ErrorCode.MODEL_UNKNOWN),
    (ScopeExceeded, ErrorCode.OUT_OF_SCOPE),
    (Refused, ErrorCode.BAD_INPUT),
    (NotFound, ErrorCode.BAD_INPUT),  # a blob or a parent that the request names
    (SetupFailed, ErrorCode.SETUP_FAILED),
    (SandboxError, ErrorCode.SANDBOX),
    (RepoError, ErrorCode.REPOSITORY),
    (Exception, ErrorCode.INTERNAL),
)


def code_of(error: Exception) -> ErrorCode:
    return next(code for kind, code in CODE_OF if isinstance(error, kind))


def error_info(error: Exception) -> ErrorInfo:
    """An exception as it travels. What nobody foresaw says only that it happened: its words may hold anything."""
    code = code_of(error)
    hint = error.hint if isinstance(error, MusterError | SandboxError | RepoError) else ""
    if code is ErrorCode.INTERNAL:
        return ErrorInfo.of(
            code, f"the worker failed ({type(error).__name__})", "see the worker's log for the task's id"
        )
    message = f"{error}\n{error.output}" if isinstance(error, SetupFailed) else str(error)
    return ErrorInfo.of(code, message, hint)
