"""What the program `muster` begins with."""

from __future__ import annotations

import signal


def main() -> None:
    """Load the command line and run it. An interrupt meanwhile ends the process as it ends any, without a traceback."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored, as in the background
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .main import main as begin

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin()


if __name__ == "__main__":
    main()
