"""GitHub's workflow commands: an error at each file that was not done, shown beside the code of a pull request."""

from __future__ import annotations

from ..report import BatchReport
from .findings import Finding, findings

# GitHub shows ten errors of a step; the summary has all.
MAX_SHOWN = 10


def workflow_commands(report: BatchReport) -> str:
    """A line each. Whatever a message holds, it begins no command of its own: a command is a line, and these are
    escaped as GitHub asks for it."""
    found = list(findings(report))
    lines = [_command(one) for one in found[:MAX_SHOWN]]
    if (more := len(found) - MAX_SHOWN) > 0:
        lines.append(f"::notice::{more} more: see the summary")
    return "".join(f"{line}\n" for line in lines)


def _command(one: Finding) -> str:
    file = f"file={_property(one.file)}," if one.file else ""
    return f"::error {file}title={_property(f'{one.repository}: {one.rule}')}::{_data(one.message)}"


def _data(text: str) -> str:
    """
    >>> _data("100%\\n::add-mask::x")
    '100%25%0A::add-mask::x'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
