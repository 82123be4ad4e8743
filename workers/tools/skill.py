"""`skill`: the instructions for one kind of work, from the workspace or the user's folder."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envelope.near import close_names
from envelope.skills import SKILL_FILE
from sandbox.base import Sandbox

from ..project.framing import framed, one_line
from ..project.pinned import NotPinned, entries_again
from ..project.skills import Skill, find_skills
from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import parameters, text

MAX_SAMPLE = 10
# A user's skill is on the worker's machine; what it brings along is copied to where the agent can read it.
COPIED_TO = "/tmp/skills"  # noqa: S108 - inside the sandbox


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
            raise ToolError(skills.why_not(name) or _unknown(name, [known.name for known in skills.found]))
        folder = skill.folder
        if skill.is_users and context.user_dir is not None:
            folder = await _copied(sandbox, skill, context.user_dir)
        return ToolResult(_told(skill, folder, await _sample(sandbox, folder)), title=name)


def _unknown(name: str, known: list[str]) -> str:
    near = close_names(name, known)
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


async def _copied(sandbox: Sandbox, skill: Skill, user_dir: Path) -> str:
    """The folder in the sandbox that holds what the user's has; links stay behind, so that nothing else of the machine
    comes along."""
    target = posixpath.join(COPIED_TO, skill.name)
    try:
        entries = await asyncio.to_thread(entries_again, user_dir, Path(skill.folder))
    except NotPinned as e:
        raise ToolError(str(e)) from e
    for each in (each for each in entries if each.kind != "link"):
        await sandbox.write(posixpath.join(target, each.path), each.content, mode=each.mode)
    return target
