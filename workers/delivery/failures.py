"""Which code a failure travels as: the tables of the workers. Class names never leave the process."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from envelope.errors import ErrorCode, MusterError
from envelope.messages import ErrorInfo
from repo.errors import DiskFull as NoRoomForGit
from repo.errors import RepoError
from sandbox.base import SandboxDriver
from sandbox.errors import DiskFull, EngineUnavailable, ImageMissing, SandboxError, SandboxLost, SetupFailed
from sandbox.unfit import full_disk
from transport.delivery import MAX_RETRIES, Again
from transport.errors import BlobsUnreachable, NotFound, Refused

from ..llm.base import Failure

# Errors of packages that know no codes, and what the transport's mean in a task. The first row that fits counts.
CODE_OF: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (Refused, ErrorCode.BAD_INPUT),
    (NotFound, ErrorCode.BAD_INPUT),  # a blob or a parent that the request names
    (SetupFailed, ErrorCode.SETUP_FAILED),
    (SandboxError, ErrorCode.SANDBOX),
    (RepoError, ErrorCode.REPOSITORY),
)

# What is not the task's fault, and may pass. (That the store does not answer, the consumer knows.) A provider of models
# that is still down after the tries of `llm/retry.py` is none of them: those have outlasted what providers call an
# incident, five times as many would be a load on one that is down, and a person should hear of it; the session's
# `resume_token` goes on where it stopped.
OUTAGES: tuple[type[Exception], ...] = (EngineUnavailable, ImageMissing, DiskFull, NoRoomForGit, BlobsUnreachable)

# Of an `OSError`: another task may have had them all, as it may have had the memory.
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})

# What a failed model call is called on the wire, and what a person can do about it.
OF_MODELS: Mapping[Failure, tuple[ErrorCode, str]] = {
    Failure.AUTH: (ErrorCode.MODEL_AUTH, "check the key (MUSTER_MODEL_API_KEY or the provider's own) and its balance"),
    Failure.UNKNOWN_MODEL: (ErrorCode.MODEL_UNKNOWN, "name the model as provider/model, for example openai/gpt-5"),
    Failure.BAD_REQUEST: (ErrorCode.MODEL_FAILED, "the provider refused the request; see its words"),
    Failure.OVERFLOW: (ErrorCode.MODEL_FAILED, "give the task less to read at once, or a model with a larger window"),
    Failure.RATE_LIMIT: (ErrorCode.MODEL_FAILED, "wait, or lower the number of slots"),
    Failure.UNAVAILABLE: (ErrorCode.MODEL_FAILED, "the provider does not answer; try again, or check its base URL"),
    Failure.CONTENT_FILTER: (ErrorCode.MODEL_FAILED, "rephrase the task, or name another model"),
}  # fmt: skip


@asynccontextmanager
async def told_by_cause(driver: SandboxDriver) -> AsyncGenerator[None]:
    """Raise what lies behind an error that does not say it: an engine that went away with its sandboxes, a full disk.

    A sandbox that is lost while its engine answers may have been the task's own doing, and stays what it is.
    """
    try:
        yield
    except SandboxLost as lost:
        try:
            await driver.check()
        except EngineUnavailable as away:
            raise away from lost
        raise
    except OSError as error:
        if full := full_disk(error):
            raise full from error
        raise


def code_of(error: Exception) -> ErrorCode:
    own = error.code if isinstance(error, MusterError) else ErrorCode.INTERNAL
    return next((code for kind, code in CODE_OF if isinstance(error, kind)), own)


def again(error: Exception, *, retries: int) -> Again | None:
    """Another attempt, for what may have passed by then. None: the error ends the task; the last attempt tells it with
    all that there is of the work."""
    lacks = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in NO_DESCRIPTORS)
    if (lacks or isinstance(error, OUTAGES)) and retries < MAX_RETRIES:
        return Again(code_of(error), str(error) or "the worker was short of memory")
    return None


def error_info(error: Exception) -> ErrorInfo:
    """An exception as it travels. What nobody foresaw says only that it happened: its words may hold anything."""
    code = code_of(error)
    hint = error.hint if isinstance(error, MusterError | SandboxError | RepoError) else ""
    if code is ErrorCode.INTERNAL:
        return ErrorInfo.of(
            code, f"the worker failed ({type(error).__name__})", "see the worker's log for the task's id"
        )
    message = f"{error}\n{error.output}".rstrip() if isinstance(error, SetupFailed) else str(error)
    return ErrorInfo.of(code, message, hint)
