"""`muster doctor`: every part that Muster needs, whether it works, and how to mend it."""

from __future__ import annotations

import asyncio

import typer
from rich.text import Text

from envelope.errors import ExitCode

from ..doctor import Check, Health, check_all
from .console import data, people, plain
from .fleet import quiet_logs
from .options import JsonLines

MARKS = {Health.WORKS: ("✔", "green"), Health.NOTE: ("●", "yellow"), Health.FAILS: ("✘", "red")}
PART_CHARS = 14


def doctor(as_json: JsonLines = False) -> None:
    """Check every part that Muster needs. Exit code 6 when something is missing."""
    quiet_logs()
    checks = asyncio.run(check_all())
    for check in checks:
        if as_json:
            data(check.as_json())
        else:
            _print(check)
    failed = any(check.health is Health.FAILS for check in checks)
    raise typer.Exit(ExitCode.INFRASTRUCTURE if failed else ExitCode.OK)


def _print(check: Check) -> None:
    mark, style = MARKS[check.health]
    line = Text.assemble((mark, style), f" {check.part:<{PART_CHARS}} {plain(check.found)}")
    people().print(line, soft_wrap=True)
    if check.mend:
        people().print(Text(f"{'':{PART_CHARS + 3}}hint: {plain(check.mend)}", style="dim"), soft_wrap=True)
