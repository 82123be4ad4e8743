"""A tool call as an editor shows it: its kind, the files that it is about, and what it changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from acp import text_block, tool_content, tool_diff_content
from acp.schema import ToolCallLocation, ToolKind

from .texts import clipped, fenced, shown

SANDBOX_ROOT = PurePosixPath("/workspace")  # where agents see the repository
MAX_DIFF_CHARS = 100_000
KINDS: Mapping[str, ToolKind] = {
    "read": "read",
    "list": "search",
    "glob": "search",
    "grep": "search",
    "edit": "edit",
    "write": "edit",
    "apply_patch": "edit",
    "bash": "execute",
    "bash_output": "execute",
    "bash_stop": "execute",
    "webfetch": "fetch",
    "websearch": "fetch",
    "plan_exit": "switch_mode",
    "question": "think",
}
# What an editor has its own way to show.
TOLD_OTHERWISE = frozenset({"todowrite", "todoread"})
PATHS = ("filePath", "path")


def kind_of(tool: str) -> ToolKind:
    return KINDS.get(tool, "other")


def title_of(tool: str, title: str, agent: str = "") -> str:
    """
    >>> title_of("bash", "ls", agent="explore"), title_of("read", "")
    ('explore: bash ls', 'read')
    """
    words = " ".join(filter(None, (f"{agent}:" if agent else "", tool, title)))
    return " ".join(shown(words).split())


def locations_of(given: Mapping[str, Any], root: Path) -> list[ToolCallLocation] | None:
    """The file that a call names, where it is on the person's machine; nothing outside of the repository."""
    path = next((given[name] for name in PATHS if isinstance(given.get(name), str)), None)
    here = path and local_path(path, root)
    if not here:
        return None
    offset = given.get("offset")
    line = offset if isinstance(offset, int) and not isinstance(offset, bool) and offset > 0 else None
    return [ToolCallLocation(path=here, line=line)]


def local_path(path: str, root: Path) -> str:
    """Empty for what is not in the repository.

    >>> local_path("/workspace/src/a.py", Path("/home/me/thing")), local_path("/etc/passwd", Path("/home/me/thing"))
    ('/home/me/thing/src/a.py', '')
    """
    full = SANDBOX_ROOT / path
    if ".." in full.parts or not full.is_relative_to(SANDBOX_ROOT):
        return ""
    return str(root / full.relative_to(SANDBOX_ROOT))


def input_content(tool: str, given: Mapping[str, Any], root: Path) -> list[Any] | None:
    """An edit as the texts before and after; a command as it stands; of other calls their title says enough."""
    match tool, given:
        case "edit", {"filePath": str(path), "oldString": str(old), "newString": str(new)}:
            return [diff_content(local_path(path, root) or path, old, new)]
        case "write", {"filePath": str(path), "content": str(new)}:
            return [diff_content(local_path(path, root) or path, None, new)]
        case "apply_patch", {"patchText": str(patch)}:
            return [text_content(fenced(patch, "diff"))]
        case "bash", {"command": str(command)}:
            return [text_content(fenced(command, "sh"))]
        case _:
            return None


def diff_content(path: str, old: str | None, new: str) -> Any:
    before = None if old is None else clipped(shown(old), MAX_DIFF_CHARS)
    return tool_diff_content(path, clipped(shown(new), MAX_DIFF_CHARS), before)


def text_content(text: str) -> Any:
    return tool_content(text_block(text))


def output_content(given: list[Any] | None, output: str) -> list[Any] | None:
    """What a call was given stays: an update's content takes the place of what was there."""
    said = [text_content(fenced(output))] if output.strip() else []
    return [*(given or []), *said] or None
