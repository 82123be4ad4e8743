"""Which files that a language server reads have changed since it last heard of them, whoever changed them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from enum import IntEnum

from sandbox.base import MIB, WORKSPACE, Command, Sandbox
from sandbox.errors import SandboxError, SandboxLost

# What a server reads beside the files of its kind, to know how to look at them.
SETTINGS = (
    *("pyproject.toml", "setup.cfg", "ruff.toml", ".ruff.toml", "pyrightconfig.json", "mypy.ini"),
    *("tsconfig.json", "jsconfig.json", "package.json", "go.mod", "Cargo.toml", "compile_commands.json"),
)
# Nobody writes these by hand, and there may be a hundred thousand of them.
_PASSED_OVER = (".git", "node_modules", ".venv", "__pycache__")
# More than that is no source code of one project: then changes by others go unseen, as without a look.
MAX_LISTING_BYTES = 8 * MIB

Listing = Mapping[str, str]


class Change(IntEnum):
    """As the protocol counts them."""

    CREATED = 1
    CHANGED = 2
    DELETED = 3


async def files_now(sandbox: Sandbox, suffixes: Iterable[str]) -> Listing | None:
    """Path → what changes with the file. The time of the inode is seen, too: `mv` keeps that of the content.

    None where the image cannot tell, or there are too many.
    """
    passed_over = " -o ".join(f"-name {name}" for name in _PASSED_OVER)
    named = " -o ".join(f"-name {shlex.quote(name)}" for name in (*(f"*{each}" for each in suffixes), *SETTINGS))
    find = (
        f"find {WORKSPACE} -type d \\( {passed_over} \\) -prune -o -type f \\( {named} \\)"
        " -exec stat -c '%n%%%z|%y|%s|%i' {} +"
    )
    try:
        ended = await sandbox.exec(Command(find, timeout_s=10.0, max_output_bytes=MAX_LISTING_BYTES))
    except SandboxLost:
        raise
    except SandboxError:
        return None
    if ended.truncated_bytes or ended.timed_out or ended.exit_code:
        return None
    lines = (line.rpartition("%") for line in ended.output.decode("utf-8", "replace").splitlines())
    return {path: stamp for path, _, stamp in lines if path.startswith(f"{WORKSPACE}/")}


def changed(before: Listing, now: Listing) -> dict[str, Change]:
    """
    >>> changed({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"})
    {'b': <Change.CHANGED: 2>, 'd': <Change.CREATED: 1>, 'c': <Change.DELETED: 3>}
    """
    found = {
        path: Change.CHANGED if path in before else Change.CREATED for path in now if before.get(path) != now[path]
    }
    return found | {path: Change.DELETED for path in before if path not in now}
