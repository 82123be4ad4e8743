"""Agent files are workers' business: their code is found by its entry point, so that no import crosses the table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from envelope.agents import AgentCard, AgentCatalogue, AgentFault, ToolOffer
from envelope.scope import Scope
from repo.errors import OutputTooLarge
from repo.local import LocalRepository
from repo.project import project_settings
from transport.settings import user_file

from .errors import BadInput, UnknownName

GROUP, NAME = "muster.agents", "files"


class AgentFiles(Protocol):
    """See `workers.agents.told`. Faults of the asker raise errors with the code `bad_input`."""

    async def catalogue(self, git_dir: Path | None, commit: str, trusted: str) -> AgentCatalogue: ...

    async def tools(
        self,
        git_dir: Path | None,
        commit: str,
        trusted: str,
        name: str,
        *,
        inherited: Scope,
        capabilities: Collection[str] | None,
        model: str,
    ) -> tuple[ToolOffer, ...]:
        """Each tool, whether the agent `name` is offered it, and what decided."""
        ...

    def check(self, paths: Sequence[Path], root: Path) -> tuple[int, tuple[AgentFault, ...]]: ...

    def request_text(
        self, description: str, taken: Collection[str], *, refused: tuple[str, str] | None = None
    ) -> str: ...

    def skill_name(self, path: str, content: bytes) -> str: ...

    def accepted(self, answer: str, name: str) -> tuple[str, str]: ...


def agent_files() -> AgentFiles:
    """`BadInput` where Muster is installed without its workers."""
    if not (points := _points()):
        raise BadInput("agent files cannot be read: the workers' code is not installed", hint="install muster again")
    return points[0].load()


async def project_cards(local: LocalRepository, trusted: str, *, wanted: str) -> list[AgentCard]:
    """The agents that the repository brings at its head. `UnknownName` when a file for `wanted` cannot be used.

    None without the workers' code: they publish cards of commits that they have worked on.
    """
    # Most have none, and the workers' code takes longer to load than all else that a command does.
    if not await _are_any(local) or not _points():
        return []
    found = await agent_files().catalogue(local.git_dir, local.head, trusted)
    if fault := found.unusable.get(wanted):
        raise UnknownName(f"{fault.path}: {fault.message}", hint=fault.hint)
    return [agent for agent in found.agents if agent.origin and not Path(agent.origin).is_absolute()]


async def _are_any(local: LocalRepository) -> bool:
    """Of the repository, or of this machine's user: one of theirs that cannot be used is told, too."""
    if (user_file().parent / "agents").exists():
        return True
    try:
        return bool((await project_settings(local.git_dir, local.head)).files)
    except OutputTooLarge:  # whoever reads them says so
        return True


def _points() -> list[EntryPoint]:
    return [*entry_points(group=GROUP, name=NAME)]
