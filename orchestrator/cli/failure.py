"""What went wrong, in the three things that a command says of it."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from envelope.errors import FREE, NO_ROOM, ExitCode
from envelope.redaction import redact

# For errors whose own message says it all.
HINTS: dict[int, str] = {
    ExitCode.USAGE: "see `muster --help`, and `muster COMMAND --help` for one command",
    ExitCode.REFUSED: "ask for less, or give the caller more: see `muster run --help`, --allow",
}
UNUSABLE = (FileNotFoundError, NotADirectoryError, PermissionError)
DOCTOR = "see what is missing with: muster doctor"


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    hint: str
    exit_code: int


def failure_of(error: BaseException) -> Failure:
    """Known errors say themselves what and what next; of others the class is named, and how to see more."""
    if isinstance(error, typer.TyperException):
        return _usage(error)
    from ..errors import exit_code_of  # only now: what it imports would slow the start of every command

    code = exit_code_of(error)
    if code is not None:
        return Failure(_sentence(str(error)), redact(getattr(error, "hint", "")) or HINTS.get(code, DOCTOR), code)
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = f"in {error.filename}" if error.filename else "on the disk, or where the output goes is full"
        return Failure(_sentence(f"no space left {where}"), FREE, ExitCode.INFRASTRUCTURE)
    if isinstance(error, OSError) and error.filename:  # something that a person named, such as the state folder
        code = ExitCode.USAGE if isinstance(error, UNUSABLE) else ExitCode.INFRASTRUCTURE
        return Failure(_sentence(f"{error.filename} cannot be used: {error.strerror}"), HINTS.get(code, DOCTOR), code)
    detail = _sentence(str(error))
    message = f"something unforeseen happened: {type(error).__name__}{f': {detail}' if detail else ''}"
    hint = "run it again with --verbose and report what you see"
    return Failure(message, hint, ExitCode.INFRASTRUCTURE)


def _usage(error: typer.TyperException) -> Failure:
    """typer writes two things into one text: what is wrong, and at times what was perhaps meant."""
    possible = getattr(error, "possibilities", None)
    what, _, meant = error.format_message().partition(" (Possible options:" if possible else " Did you mean ")
    command = getattr(getattr(error, "ctx", None), "command_path", "muster")
    if possible:
        hint = f"did you mean {' or '.join(sorted(possible))}?"
    else:
        hint = f"did you mean {meant}" if meant else f"see `{command} --help`"
    return Failure(_sentence(what.replace("Value error, ", "")), hint, ExitCode.USAGE)  # pydantic's words, in typer's


def _sentence(text: str) -> str:
    """One line, without its full stop, with no secret, and with nothing that a terminal obeys: it may name files."""
    from .console import plain  # only now, as above

    line = plain(" ".join(redact(text).split())).removesuffix(".")
    return line[:1].lower() + line[1:] if line[:2].istitle() else line
