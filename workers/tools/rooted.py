"""Tools of a task that works in a folder of its workspace: relative paths start there, and so do defaults.

Permissions still see paths from the top of the workspace, as grants and rules are written.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from sandbox.base import WORKSPACE

from .asking import Shows
from .base import CallResult, Target, Tool, ToolContext
from .patch_text import ADD, DELETE, MOVE, UPDATE
from .paths import absolute

# What tools call a path; one that may be left out stands for the whole workspace.
BLANKS = " \t"
PATHS = ("filePath", "path", "workdir")
_HEADER = re.compile(rf"^({'|'.join(map(re.escape, (ADD, DELETE, UPDATE, MOVE)))})(.*)$", re.MULTILINE)


class Rooted:
    """`folder` is absolute, and in the workspace."""

    def __init__(self, tool: Tool, folder: str) -> None:
        self._tool = tool
        self._folder = folder
        self.name = tool.name
        self.description = tool.description.replace(WORKSPACE, folder)
        self.parameters: dict[str, Any] = json.loads(json.dumps(tool.parameters).replace(WORKSPACE, folder))

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return self._tool.targets(self._from_folder(arguments))

    def title(self, arguments: Mapping[str, Any]) -> str:
        return self._tool.title(self._from_folder(arguments))

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> CallResult:
        return await self._tool.run(context, call_id, self._from_folder(arguments))

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return await self._tool.preview(context, self._from_folder(arguments)) if isinstance(self._tool, Shows) else ""

    def _from_folder(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        known = self.parameters["properties"]
        paths = {name: self._located(arguments.get(name, "")) for name in PATHS if name in known}
        patch = {"patchText": self._patch(arguments["patchText"])} if "patchText" in known else {}
        return {**arguments, **paths, **patch}

    def _located(self, path: str) -> str:
        return absolute(posixpath.join(self._folder, path))

    def _patch(self, text: str) -> str:
        return _HEADER.sub(lambda header: f"{header[1]} {self._located(header[2].strip(BLANKS))}", text)
