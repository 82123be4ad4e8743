"""The JUnit XML that a command of a gate leaves in its sandbox."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from sandbox.base import WORKSPACE, Command, Sandbox
from sandbox.errors import PathError

from .junit import MAX_REPORT_BYTES, Report, cases_of

MAX_REPORTS = 2_000  # Maven writes one for each class
MAX_FOLDERS = 500  # that a glob may lead through
_WILD = re.compile(r"[*?\[]")


def own_report() -> str:
    """Where pytest is told to write. Outside of the workspace, and at a place that nobody could know before."""
    return f"/tmp/muster-{secrets.token_hex(16)}.xml"  # noqa: S108 - inside the sandbox


async def remove_reports(sandbox: Sandbox, places: Iterable[str]) -> None:
    """What lies there already is no account of what is about to run."""
    for path in [path for place in places for path in await _matching(sandbox, place)]:
        await sandbox.exec(Command(["rm", "-rf", "--", path]))


async def read_reports(sandbox: Sandbox, places: Mapping[str, str], token: str = "") -> tuple[str, Report] | None:
    """Of the first of `places` (paths or globs, by what they are called) where any is, with what that is called.

    None when there is none, and when one that is there cannot be read.
    """
    for name, place in places.items():
        if paths := await _matching(sandbox, place):
            try:
                report = cases_of([await sandbox.read(path, max_bytes=MAX_REPORT_BYTES + 1) for path in paths], token)
            except PathError:
                return None
            return (name, report) if report else None
    return None


def place_of(pattern: str, cwd: str) -> str:
    """Where the commands, which run in `cwd`, write what they call `pattern`."""
    return posixpath.normpath(posixpath.join(cwd or WORKSPACE, pattern))


async def _matching(sandbox: Sandbox, place: str) -> list[str]:
    """Paths that `place` matches, where each part between slashes may hold wildcards."""
    paths = ["/"]
    for part in place.strip("/").split("/"):
        if not _WILD.search(part):
            paths = [posixpath.join(path, part) for path in paths]
            continue
        paths = [
            posixpath.join(path, name)
            for path in paths[:MAX_FOLDERS]
            for name in await _names(sandbox, path)
            if fnmatchcase(name, part)
        ]
    return [path for path in paths if await _is_there(sandbox, path)][:MAX_REPORTS]


async def _names(sandbox: Sandbox, folder: str) -> list[str]:
    try:
        return [posixpath.basename(entry.path) for entry in await sandbox.list(folder)]
    except PathError:
        return []


async def _is_there(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.stat(path)
    except PathError:
        return False
    return True
