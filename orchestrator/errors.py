"""What can go wrong on the caller's side, before or beside any task.

MusterError
└── OrchestratorError
    ├── BadInput            what a person wrote cannot be used
    │   ├── BadBatchFile    names the file and the field
    │   ├── BadSettings     a setting or the user's configuration file
    │   ├── UnknownName     an agent or pool that nobody serves
    │   ├── UnderWay        what has no end yet, asked for by its end
    │   └── Answered        an ask that somebody has answered before; their answer stands
    └── TaskFailed          a task that the work cannot go on without has ended badly; carries its error

How a task ended badly travels as `ErrorInfo` in its result; these are for the process that sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

from envelope.asks import Reply
from envelope.errors import CODES, ErrorCode, ExitCode, MusterError
from envelope.messages import ErrorInfo
from envelope.near import close_names
from repo.errors import RepoError
from transport.audit import TIMEOUT
from transport.errors import Misconfigured, NotFound, Refused


class OrchestratorError(MusterError):
    exit_code: ExitCode | None = None  # set where another program's is passed on


class BadInput(OrchestratorError):
    code = ErrorCode.BAD_INPUT


class BadBatchFile(BadInput): ...


class BadSettings(BadInput): ...


class UnknownName(BadInput): ...


class UnderWay(BadInput): ...


class Answered(BadInput):
    """`reply`: what was said, `by` whom and when; nobody else's words count any more."""

    def __init__(self, task_id: str, by: str, at_ms: int, reply: Reply) -> None:
        said = reply.in_words()
        who = "nobody answered this in time" if by == TIMEOUT else f"{by} has answered this already"
        super().__init__(
            f"{who}: {said}", hint=f'that stands; say more to the agent with: muster task prompt {task_id} "…"'
        )
        self.by, self.at_ms, self.reply = by, at_ms, reply


class TaskFailed(OrchestratorError):
    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message, hint=error.hint)
        self.error = error
        self.code = error.code


# Packages below ours, whose classes name no code.
CODE_OF: dict[type[Exception], ErrorCode] = {
    RepoError: ErrorCode.REPOSITORY,
    Refused: ErrorCode.REFUSED,
    NotFound: ErrorCode.BAD_INPUT,
    Misconfigured: ErrorCode.BAD_INPUT,
}


def code_of(error: BaseException) -> ErrorCode | None:
    """What results and commands say of an exception; None when nobody foresaw it."""
    foreign = next((code for kind, code in CODE_OF.items() if isinstance(error, kind)), None)
    return foreign or (error.code if isinstance(error, MusterError) else None)


def exit_code_of(error: BaseException) -> ExitCode | None:
    """What a command that ends with this exception returns; None when nobody foresaw it."""
    code = code_of(error)
    own = error.exit_code if isinstance(error, OrchestratorError) else None
    return own or (CODES[code].exit_code if code else None)


MAX_SHOWN_NAMES, MAX_SHOWN_CHARS = 50, 100  # of a hint: names may come from a caller


def near_miss(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not among the known ones: the closest, else all."""
    names = list(known)
    if close := close_names(name, names):
        return f"did you mean {close[0]!r}?"
    shown = [one[:MAX_SHOWN_CHARS] for one in nsmallest(MAX_SHOWN_NAMES, names)]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"known: {', '.join(shown) or 'none'}{more}"
