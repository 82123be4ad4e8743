"""What the command line asks workers' code about agent files. Found by its entry point (`orchestrator.agent_files`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pydantic import ValidationError

from envelope.agents import AgentCatalogue, AgentDetail, AgentFault, ToolOffer
from envelope.scope import Scope

from ..errors import BadAgent, BadInput
from ..mcp.offering import explain_servers
from ..mcp.settings import with_grants
from ..own_folders import own_folders
from ..permissions.guard import Guard
from ..permissions.rules import DEFAULTS
from ..project.skills import BadSkill, parse_skill
from ..settings import WorkerSettings
from ..tools.offering import explain
from .base import Agent
from .folders import SUFFIX, files_below, user_folder
from .generating import accepted, request_text
from .layers import FOLDERS, AgentFile, Fault, Known, read_agent
from .project import own_agents, project_agents
from .registry import card, problems, remarks

__all__ = ("accepted", "catalogue", "check", "request_text", "skill_name", "tools")


def skill_name(path: str, content: bytes) -> str:
    """By which agents would know the skill in this file. `BadInput` for one that they could not use."""
    try:
        return parse_skill(path, content).name
    except BadSkill as e:
        raise BadInput(f"{path} is no skill: {e}", hint="see docs/skills.md for one that works") from e


async def catalogue(git_dir: Path | None, commit: str, trusted: str) -> AgentCatalogue:
    """This machine's agents, and those of the repository at the commit."""
    known = await _known(git_dir, commit, trusted)
    return AgentCatalogue(
        agents=tuple(_detail(agent) for _, agent in sorted(known.agents.items())),
        faults=tuple(map(_told, known.faults)),
        unusable={name: _told(fault) for name, fault in known.unusable.items()},
    )


async def tools(
    git_dir: Path | None,
    commit: str,
    trusted: str,
    name: str,
    *,
    inherited: Scope,
    capabilities: Collection[str] | None,
    model: str,
) -> tuple[ToolOffer, ...]:
    """Each tool and whether the agent is offered it. `inherited`: the scope of who has none of its own."""
    known = await _known(git_dir, commit, trusted)
    settings = _settings()
    servers = settings.mcp
    agent = with_grants({name: known.named(name)}, servers)[name]
    guard = Guard(agent.auth_scope or inherited, (*DEFAULTS, *agent.rules), agent.fixed)
    starts_others = any(other.mode in ("subagent", "all") and not other.hidden for other in known.agents.values())
    own = explain(
        *(agent, guard, capabilities),
        starts_others=starts_others,
        searches=bool(settings.search_url),
        model=agent.model or model,
    )
    return (*own, *explain_servers(agent, guard, servers.enabled.keys(), capabilities))


def check(paths: Sequence[Path], root: Path) -> tuple[int, tuple[AgentFault, ...]]:
    """How many agent files there are, and all that is wrong with them.

    `paths` are files and folders; none: the user's folder and those of the work tree at `root`.
    """
    places = [path.absolute() for path in paths] or [
        user_folder(),
        *(root.absolute() / each for each in own_folders(root, FOLDERS)),
    ]
    read = [files_below(place) for place in places if not place.is_file()]
    files = [*map(_single, filter(Path.is_file, places)), *(file for found, _ in read for file in found)]
    refused = [_told(fault) for _, faults in read for fault in faults]
    return len(files), (*refused, *(fault for file in files for fault in _faults(file)))


def _single(path: Path) -> AgentFile:
    return AgentFile(str(path), path.name.removesuffix(SUFFIX), path.read_bytes())


def _faults(file: AgentFile) -> list[AgentFault]:
    found = problems(file.name, file.content.decode(errors="replace"))
    try:
        odd = remarks(read_agent(file))
    except BadAgent as e:
        found = found or [e]
    else:
        found = [BadAgent(fault, hint=hint, key=key) for key, fault, hint in odd]
    return [_told(Fault(file.path, file.name, each.message, each.hint, each.key)) for each in found]


def _settings() -> WorkerSettings:
    try:
        return WorkerSettings()
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise BadInput(f"the workers' setting {where} is not usable: {fault['msg']}", hint="correct it") from e


async def _known(git_dir: Path | None, commit: str, trusted: str) -> Known:
    own = own_agents(_settings().permission)
    return own if git_dir is None else await project_agents(own, git_dir, commit, trusted=trusted)


def _detail(agent: Agent) -> AgentDetail:
    return AgentDetail(**dict(card(agent)), prompt=agent.prompt)


def _told(fault: Fault) -> AgentFault:
    return AgentFault(path=fault.path, name=fault.name, message=fault.message, hint=fault.hint, key=fault.key)
