"""Ctrl-C while a task runs: the first one asks whether to detach or cancel, the second one leaves at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum

from envelope.errors import ExitCode

from .console import interactive, people


class Choice(StrEnum):
    DETACH = "detach"
    CANCEL = "cancel"


class Interrupts:
    """`first` is set by the first Ctrl-C."""

    def __init__(self) -> None:
        self.first = asyncio.Event()

    def hear(self) -> None:
        if self.first.is_set():
            people().show_cursor(True)
            os._exit(ExitCode.INTERRUPTED)  # whatever hangs, the person wants out; the work itself is safe in the queue
        self.first.set()


@asynccontextmanager
async def interrupts() -> AsyncGenerator[Interrupts]:
    """While this is open, Ctrl-C raises nothing: whoever waits looks at `first`."""
    loop, heard = asyncio.get_running_loop(), Interrupts()
    loop.add_signal_handler(signal.SIGINT, heard.hear)
    try:
        yield heard
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def ask_choice(*, may_ask: bool) -> Choice:
    """What to do with the work; cancel when nobody can be asked or nothing else is said."""
    if not (may_ask and interactive()):
        return Choice.CANCEL
    from rich.text import Text

    asked = (("interrupted", "bold"), ": ", ("d", "bold"), " leaves it running, anything else cancels it [d/C] ")
    people().print()
    people().print(Text.assemble(*asked), end="")
    answer = await read_line()
    return Choice.DETACH if answer.strip().lower() in ("d", "detach") else Choice.CANCEL


async def read_line() -> str:
    """One line from the terminal, without a thread that would go on reading after us."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    loop.add_reader(sys.stdin, lambda: line.done() or line.set_result(sys.stdin.readline()))
    try:
        return await line
    finally:
        loop.remove_reader(sys.stdin)
