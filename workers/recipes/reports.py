"""The JUnit XML that a command of a gate leaves in its sandbox."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from repo.fairness import beside
from sandbox.base import WORKSPACE, Command, Sandbox
from sandbox.errors import PathError
from transport.blobs.owners import acting_tenant

from .junit import MAX_REPORT_BYTES, Report, cases_of

MAX_REPORTS = 10_000  # Maven writes one for each class
MAX_REPORTS_BYTES = 64 * 1024 * 1024  # of all together
MAX_FOLDERS = 2_000  # that a glob may lead through
MAX_ENTRIES = 50_000  # of one folder
PATHS_OF_A_COMMAND = 200
REMOVALS = 10  # each of all that is found
_WILD = re.compile(r"[*?\[]")


class TooManyReports(Exception):
    """Nobody knows then what the others say."""


def own_reports() -> str:
    """The folder where pytest is told to write. Outside of the workspace, and at a place that nobody could know
    before."""
    return f"/tmp/muster-{secrets.token_hex(16)}"  # noqa: S108 - inside the sandbox


async def remove_reports(sandbox: Sandbox, places: Iterable[str]) -> None:
    """What lies there already is no account of what is about to run."""
    for place in places:
        for _ in range(REMOVALS):
            paths, is_cut = await _matching(sandbox, place)
            for start in range(0, len(paths), PATHS_OF_A_COMMAND):
                await sandbox.exec(Command(["rm", "-rf", "--", *paths[start : start + PATHS_OF_A_COMMAND]]))
            if not is_cut:
                break


async def read_reports(sandbox: Sandbox, places: Mapping[str, str], token: str = "") -> dict[str, Report]:
    """Of `places` (paths or globs, by what they are called) those where any is, up to one that cannot be read.

    `TooManyReports` where one has more than can be read.
    """
    found: dict[str, Report] = {}
    for name, place in places.items():
        paths, is_cut = await _matching(sandbox, place)
        if is_cut:
            raise TooManyReports(f"there are more than {MAX_REPORTS} reports in {name}")
        contents: list[bytes] = []
        left_bytes = MAX_REPORTS_BYTES
        try:
            for path in paths:
                contents.append(await sandbox.read(path, max_bytes=MAX_REPORT_BYTES + 1))
                left_bytes -= len(contents[-1])
                if left_bytes < 0:
                    raise TooManyReports(f"there are more than {MAX_REPORTS_BYTES >> 20} MiB of reports in {name}")
        except PathError:
            break
        if contents:
            if (report := await beside.run(acting_tenant(), partial(cases_of, contents, token))) is None:
                break
            found[name] = report
    return found


def place_of(pattern: str, cwd: str) -> str:
    """Where the commands, which run in `cwd`, write what they call `pattern`."""
    return posixpath.normpath(posixpath.join(cwd or WORKSPACE, pattern))


async def _matching(sandbox: Sandbox, place: str) -> tuple[list[str], bool]:
    """Paths that `place` matches, where each part between slashes may hold wildcards; and whether there are more."""
    paths, is_cut, listed = ["/"], False, True
    for part in place.strip("/").split("/"):
        listed = _WILD.search(part) is not None
        if not listed:
            paths = [posixpath.join(path, part) for path in paths]
            continue
        is_cut |= len(paths) > MAX_FOLDERS
        found: list[str] = []
        for folder in paths[:MAX_FOLDERS]:
            names, is_long = await _names(sandbox, folder)
            found += [posixpath.join(folder, name) for name in names if fnmatchcase(name, part)]
            is_cut |= is_long
        paths = found
    there = paths if listed else [path for path in paths[:MAX_REPORTS] if await _is_there(sandbox, path)]
    return there[:MAX_REPORTS], is_cut or len(paths) > MAX_REPORTS


async def _names(sandbox: Sandbox, folder: str) -> tuple[list[str], bool]:
    try:
        entries = await sandbox.list(folder, limit=MAX_ENTRIES + 1)
    except PathError:
        return [], False
    return [posixpath.basename(entry.path) for entry in entries[:MAX_ENTRIES]], len(entries) > MAX_ENTRIES


async def _is_there(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.stat(path)
    except PathError:
        return False
    return True
