"""What became of publications, as an exit code."""

from __future__ import annotations

from collections.abc import Iterable

from envelope.errors import CODES, ErrorCode, ExitCode

from ..publication.errors import NotPublished
from ..publication.told import Told


def require_published(told: Iterable[Told]) -> None:
    """`NotPublished` with the first that was stopped by an error; what only waits for its time is none."""
    every = list(told)
    failed = [each for each in every if each.code]
    if not failed:
        return
    first = failed[0]
    own = CODES[ErrorCode(first.code)].exit_code
    exit_code = own if len(failed) == len(every) else ExitCode.PARTIAL
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    name = f"{first.repository}: " if first.repository else ""
    raise NotPublished(f"{name}{first.reason}{more}", hint=first.hint, exit_code=exit_code)
