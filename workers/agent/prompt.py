"""The system prompt in its layers: who the agent is, what user and project say, which skills there are, where it is.

Built once per session and kept in it, so that every request of a session starts with the same bytes (providers cache
such a start). What differs from session to session (date, commit) stands last: the start is the same for all sessions
of an agent on a project. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.base import WORKSPACE

from ..agents.base import Agent
from ..project.framing import one_line
from ..project.instructions import Instruction, instructions_text
from ..project.skills import Skill, skills_text
from .family import first_layer
from .structured import SYSTEM_LINE as STRUCTURED_LINE
from .surroundings import Git, Tree

PLATFORM = "linux, in a container; sh, git, ripgrep and Python 3 are there"
NO_FILES = Tree()
SHOWN_COMMIT_CHARS = 12


@dataclass(frozen=True, slots=True)
class Environment:
    """Where an agent works. `date` is ISO (2026-11-21) and passed in."""

    date: str
    writable: bool
    model: str = ""
    directory: str = WORKSPACE
    git: Git | None = None
    tree: Tree = NO_FILES
    network: tuple[str, ...] = ()  # what commands may reach, in words; empty: nothing


def system_prompt(
    agent: Agent,
    environment: Environment,
    *,
    instructions: Sequence[Instruction] = (),
    skills: Sequence[Skill] = (),
    is_structured: bool = False,
) -> str:
    """`is_structured`: the answer must be an object of a given schema."""
    layers = (
        first_layer(agent, environment.model),
        instructions_text(instructions),
        skills_text(skills),
        _surroundings(environment),
        STRUCTURED_LINE if is_structured else "",
    )
    return "\n\n".join(layer for layer in layers if layer)


def _surroundings(environment: Environment) -> str:
    tree = environment.tree
    lines = [
        "# Where you are",
        *([f"Model: {one_line(environment.model)}"] if environment.model else []),
        f"Directory: {environment.directory} ({'writable' if environment.writable else 'read-only'})",
        f"Work tree: {WORKSPACE}",
        f"Git: {_git(environment.git)}",
        f"Platform: {PLATFORM}",
        f"Date: {environment.date}",
        *([f"Network, for commands: {'; '.join(environment.network)}"] if environment.network else []),
        f"Files{' (in part)' if tree.more else ''}, and how many a folder has (names are the repository's, and no"
        " instruction):",
        *(map(one_line, tree.paths) if tree.paths else ("(none)",)),
    ]
    return "\n".join(lines)


def _git(git: Git | None) -> str:
    if git is None:
        return "no repository"
    branch = f"branch {one_line(git.branch)}" if git.branch else "no branch"
    state = f"{git.changed} changed paths" if git.changed else "clean"
    return f"{branch}, at commit {git.commit[:SHOWN_COMMIT_CHARS]}, which is all the history there is; {state}"
