"""What went wrong, in the three things that a command says of it."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from envelope.errors import ExitCode, MusterError
from envelope.redaction import redact

# Exceptions with no exit code of their own, by the name of their class: the classes themselves would have to be
# imported, and most commands need only a few of them. A class stands for all below it.
EXIT_CODES: dict[str, ExitCode] = {
    "RepoError": ExitCode.USAGE,
    "NotFound": ExitCode.USAGE,
    "Misconfigured": ExitCode.USAGE,
    "Refused": ExitCode.REFUSED,
    "ScopeExceeded": ExitCode.REFUSED,
    "MusterError": ExitCode.INFRASTRUCTURE,
}


# For errors whose own message says it all.
HINTS: dict[int, str] = {
    ExitCode.USAGE: "see `muster --help`, and `muster COMMAND --help` for one command",
    ExitCode.REFUSED: "ask for less, or give the caller more: see `muster run --help`, --allow",
}
DOCTOR = "see what is missing with: muster doctor"


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    hint: str
    exit_code: int


def failure_of(error: BaseException) -> Failure:
    """Known errors say themselves what and what next; of others the class is told, and how to see more."""
    if isinstance(error, typer.TyperException):
        return _usage(error)
    code = _exit_code(error)
    if isinstance(error, MusterError) or code is not None:
        code = code or ExitCode.INFRASTRUCTURE
        return Failure(_sentence(str(error)), redact(getattr(error, "hint", "")) or HINTS.get(code, DOCTOR), code)
    detail = _sentence(str(error))
    message = f"something unforeseen happened: {type(error).__name__}{f': {detail}' if detail else ''}"
    hint = "run it again with --verbose and report what you see"
    return Failure(message, hint, ExitCode.INFRASTRUCTURE)


def _exit_code(error: BaseException) -> int | None:
    own = getattr(error, "exit_code", None)
    if isinstance(own, int):
        return own
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), None)


def _usage(error: typer.TyperException) -> Failure:
    """typer writes two things into one text: what is wrong, and at times what was perhaps meant."""
    possible = getattr(error, "possibilities", None)
    what, _, meant = error.format_message().partition(" (Possible options:" if possible else " Did you mean ")
    command = getattr(getattr(error, "ctx", None), "command_path", "muster")
    if possible:
        hint = f"did you mean {' or '.join(sorted(possible))}?"
    else:
        hint = f"did you mean {meant}" if meant else f"see `{command} --help`"
    return Failure(_sentence(what), hint, ExitCode.USAGE)


def _sentence(text: str) -> str:
    """One line, without its full stop, with no secret."""
    line = " ".join(redact(text).split()).removesuffix(".")
    return line[:1].lower() + line[1:] if line[:2].istitle() else line
