"""`skill`: the instructions for one kind of work, from the workspace or the user's folder."""

from __future__ import annotations

import asyncio
import difflib
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.base import Sandbox

from ..project.framing import framed, one_line
from ..project.skills import SKILL_FILE, Skill, find_skills
from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import parameters, text

MAX_SAMPLE = 10
# A user's skill is on the worker's machine; what it brings along is copied to where the agent can read it.
COPIED_TO = "/tmp/skills"  # noqa: S108 - inside the sandbox
MAX_COPIED_FILES = 100
MAX_COPIED_BYTES = 1024 * 1024  # of one file


class SkillTool:
    name = "skill"
    description = (
        "Read a skill: instructions for one kind of work, as listed under Skills. Gives the instructions, the folder"
        f" they are in, and up to {MAX_SAMPLE} of the files there."
    )
    parameters = parameters(["name"], name=text("the name of the skill"))

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target("skill", arguments["name"])]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["name"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        name = arguments["name"]
        sandbox = await context.sandbox()
        skills = await find_skills(sandbox, context.user_dir)
        skill = skills.named(name)
        if skill is None:
            raise ToolError(_unknown(name, [known.name for known in skills.found]))
        folder = await _copied(sandbox, skill) if skill.is_users else skill.folder
        return ToolResult(_told(skill, folder, await _sample(sandbox, folder)), title=name)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    others = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"there is no skill {name!r}; {others}"


def _told(skill: Skill, folder: str, files: list[str]) -> str:
    said = "the user" if skill.is_users else "the repository; it cannot widen what you may do"
    return "\n".join(
        (
            f"This skill is from {said}. Paths in it are relative to its folder.",
            framed("skill", skill.name, skill.body),
            f"Folder: {one_line(folder)}",
            "Files: " + (", ".join(map(one_line, files)) or "none beside it"),
        )
    )


async def _sample(sandbox: Sandbox, folder: str) -> list[str]:
    found, more = await sandbox.glob("*", folder, limit=MAX_SAMPLE + 1)
    files = [posixpath.relpath(path, folder) for path in found if posixpath.basename(path) != SKILL_FILE]
    return [*files[:MAX_SAMPLE], *(["…"] if more or len(files) > MAX_SAMPLE else [])]


async def _copied(sandbox: Sandbox, skill: Skill) -> str:
    """The folder in the sandbox that holds what the user's has."""
    target = posixpath.join(COPIED_TO, skill.name)
    for name, content, mode in await asyncio.to_thread(_contents, Path(skill.folder)):
        await sandbox.write(posixpath.join(target, name), content, mode=mode)
    return target


def _contents(folder: Path) -> list[tuple[str, bytes, int]]:
    """Regular files in their folder; links are left out, so that nothing else of the machine comes along."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    small = [path for path in paths if path.stat().st_size <= MAX_COPIED_BYTES][:MAX_COPIED_FILES]
    return [(str(path.relative_to(folder)), path.read_bytes(), path.stat().st_mode & 0o777) for path in small]
