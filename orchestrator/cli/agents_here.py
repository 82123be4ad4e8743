"""The agents that a person can name where they are: this machine's, and those of the repository around a path."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envelope.agents import AgentCatalogue, AgentDetail
from repo.errors import CommitMissing, RepositoryMissing
from repo.local import describe

from ..agent_files import agent_files
from ..settings import load_settings
from ..trust import TrustStore, trusted_digest


@dataclass(frozen=True, slots=True)
class Place:
    """Where agents are looked for. Without `git_dir` there is no repository, or it has no commit."""

    git_dir: Path | None = None
    commit: str = ""
    trusted: str = ""


def is_for_people(agent: AgentDetail) -> bool:
    """Does a person ever name it: to start it, or for a subagent to be started?"""
    return not agent.hidden and agent.mode != "recipe"


async def place_of(repo: Path) -> Place:
    with suppress(RepositoryMissing, CommitMissing):
        local = await describe(repo)
        store = TrustStore(load_settings().state_dir)
        trusted = await trusted_digest(store, local.root, local.git_dir, local.head)
        return Place(local.git_dir, local.head, trusted)
    return Place()


async def catalogue_here(repo: Path) -> AgentCatalogue:
    place = await place_of(repo)
    return await agent_files().catalogue(place.git_dir, place.commit, place.trusted)
