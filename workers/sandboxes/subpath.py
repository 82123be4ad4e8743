"""The folder of its workspace that a task works in."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from envelope.messages import TaskRequest
from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import PathError

from ..errors import BadInput
from ..tools.base import Tool
from ..tools.rooted import Rooted


def folder_of(request: TaskRequest) -> str:
    """Absolute; the workspace itself unless the request says more. `BadInput` for a path that leads out of it."""
    subpath = request.workspace.subpath if request.workspace else ""
    folder = posixpath.normpath(posixpath.join(WORKSPACE, subpath))
    if folder != WORKSPACE and not folder.startswith(f"{WORKSPACE}/"):
        raise BadInput(
            f"the subpath {subpath!r} leads out of the repository", hint="name a folder of it, such as src/a"
        )
    return folder


async def require_folder(sandbox: Sandbox, folder: str) -> None:
    try:
        kind = (await sandbox.stat(folder)).kind
    except PathError:
        kind = ""
    if kind != "directory":
        subpath = posixpath.relpath(folder, WORKSPACE)
        raise BadInput(f"the repository has no folder {subpath!r} at the base", hint="correct `subpath`, or the base")


def in_folder(tools: Mapping[str, Tool], folder: str) -> dict[str, Tool]:
    """The tools with their relative paths starting in the folder."""
    return dict(tools) if folder == WORKSPACE else {name: Rooted(tool, folder) for name, tool in tools.items()}
