"""`python -m orchestrator.supervisor`: what the command line starts in the background."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys

from envelope.errors import ExitCode, error_text
from envelope.logs import configure_service

from ..errors import exit_code_of
from ..settings import load_settings
from .errors import AlreadyRuns, FleetError
from .fleet import IDLE_S, supervise


def main() -> int:
    """The supervisor's process, until the fleet is idle or told to stop; 0 also when another one runs already."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.supervisor", description=__doc__)
    parser.add_argument("--idle-s", type=float, default=IDLE_S, help="stop after this long without clients and tasks")
    parser.add_argument("--stay", action="store_true", help="do not stop when idle")
    parser.add_argument("--client-fd", type=int, help="an open connection of whoever starts this process")
    options = parser.parse_args()
    settings = load_settings()
    configure_service(level=settings.log_level, style=settings.log_format)
    client = None if options.client_fd is None else socket.socket(fileno=options.client_fd)
    try:
        asyncio.run(supervise(settings, idle_s=options.idle_s, stay=options.stay, client=client))
    except AlreadyRuns:
        return ExitCode.OK  # the client sees the end of its connection and goes to the other's socket
    except FleetError as error:
        sys.stderr.write(error_text(error.message, error.hint))
        return exit_code_of(error) or ExitCode.INFRASTRUCTURE
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
