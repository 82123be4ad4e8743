"""`muster`: the entry point. Errors of every command end here, as one sentence, a hint and an exit code."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, cast

import typer

# Before anything of pydantic is used: it would look through all installed packages for its plugins, which takes longer
# than what it does for a command. What processes are started from here inherits it.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from envelope.errors import ExitCode, error_text

from .commands import build_app
from .failure import failure_of
from .session import session_of

# What is asked before the command's name, and by completion, which needs every command's options.
VERBOSE = "--verbose"
# About as many objects as a command's imports make, none of which is garbage: to look through them again and again as
# they come takes a twentieth of the start.
GARBAGE_FROM_OBJECTS = 50_000
CLOSED_PIPE = 128 + signal.SIGPIPE  # what a shell says of a program that a closed pipe has ended
# What a terminal obeys instead of showing it: C0 but tabs and line ends, C1, and what turns the direction of a line.
# Lone surrogates, as in odd names of files, could not be written at all.
_ORDERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    gc.set_threshold(GARBAGE_FROM_OBJECTS)
    _open_what_is_closed()
    sys.stdout, sys.stderr = (cast(TextIO, _Harmless(stream)) for stream in (sys.stdout, sys.stderr))
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbose = VERBOSE in words
    sys.exit(run([word for word in words if word != VERBOSE], verbose=verbose))


def run(words: list[str], *, verbose: bool) -> int:
    """One command; never raises, unless `verbose` asks for the traceback of something unforeseen."""
    try:
        told = {"args": words or ["--help"], "prog_name": "muster", "standalone_mode": False}
        return build_app(words)(**told, obj=session_of) or ExitCode.OK
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit as end:
        # So typer ends where whoever read our output has had enough (`muster task logs … | head`), after it has seen
        # to it that no flush complains. Nothing is wrong, and of a goal nothing is known: it goes on.
        if isinstance(end.__context__, BrokenPipeError):
            return CLOSED_PIPE
        raise
    except Exception as error:  # the last net: whatever it is, a person gets a sentence and a script an exit code
        failure = failure_of(error)
        sys.stderr.write(error_text(failure.message, failure.hint))
        if verbose:
            raise
        return failure.exit_code


class _Harmless:
    """A standard stream: what records, repositories and tracebacks hold of orders for a terminal is written as JSON
    escapes it, so that JSON means the same. What draws on purpose (`console.py`) writes past it."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich's own name for what is behind such a stream

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(_ORDERS.sub(lambda found: json.dumps(found[0])[1:-1], text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _open_what_is_closed() -> None:
    """A program that was started with a standard stream closed (`<&-`) has it empty, and puts nothing else there."""
    for fd, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            setattr(sys, name, os.fdopen(fd, mode))


if __name__ == "__main__":
    main()
