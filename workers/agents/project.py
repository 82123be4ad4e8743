"""The agents that a task may use: those of this worker, and those of the task's repository at its base commit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

from envelope.agents import ProjectCards
from envelope.messages import NOT_AT_ALL, Workspace
from repo.cache import Use
from repo.errors import OutputTooLarge
from repo.project import ProjectSettings, project_settings
from transport.blobs.owners import acting_tenant

from ..front_matter import read_beside
from ..permissions.rules import Rule
from ..sandboxes.workspace import Workspaces
from .folders import files_at, files_below, user_folder
from .layers import Fault, Known, builtin_agents, with_files
from .registry import card

# Of so many commits the agents are kept in memory, and of the latest the cards are published: a batch has one commit
# for each repository, and a card is a few hundred bytes in a message of at most 1 MiB.
MAX_KEPT = 64
MAX_PUBLISHED = 8
MAX_DESCRIPTION_CHARS = 500


def own_agents(permission: tuple[Rule, ...] = ()) -> Known:
    """Built-in agents, and those of this machine's user; their files are read now. `permission`: the user's for all."""
    files, faults = files_below(user_folder())
    return with_files(replace(builtin_agents(permission), faults=tuple(faults)), files, trusted=True)


async def project_agents(below: Known, git_dir: Path, commit: str, *, trusted: str) -> Known:
    """The agents of a repository's commit on top of `below`. `trusted`: the digest of the settings that its submitter
    trusts; with any other one the files may only narrow."""
    try:
        settings = await project_settings(git_dir, commit)
    except OutputTooLarge:
        fault = Fault("the settings folders", "", "hold too many files to be read", "remove what is no setting")
        return replace(below, faults=(*below.faults, fault))
    return await agents_of(below, git_dir, settings, is_trusted=bool(trusted) and trusted == settings.digest)


async def agents_of(below: Known, git_dir: Path, settings: ProjectSettings, *, is_trusted: bool) -> Known:
    files, faults = await files_at(git_dir, settings)
    known = replace(below, faults=(*below.faults, *faults))
    return await read_beside(lambda: with_files(known, files, trusted=is_trusted)) if files else known


class ProjectAgents:
    """Shared by all attempts of a worker; a commit's agents are read once."""

    def __init__(self, workspaces: Workspaces, own: Known) -> None:
        self.own = own
        self._workspaces = workspaces
        self._kept: OrderedDict[Hashable, Known] = OrderedDict()
        self._published: OrderedDict[Hashable, ProjectCards] = OrderedDict()

    async def of(self, workspace: Workspace | None) -> Known:
        """`BadInput` and errors of `repo` for a repository that cannot be had."""
        if workspace is None or workspace.trusted == NOT_AT_ALL:
            return self.own
        # Who names another's commit must have its repository, too. A name of a branch may be another commit tomorrow,
        # and is looked up each time: it is no key in here.
        place = (acting_tenant(), workspace.url, workspace.bundle, workspace.path, workspace.credentials)
        key = (*place, workspace.public, workspace.trusted, workspace.base)
        if key not in self._kept:
            with Use(acting_tenant()) as use:
                mirror, commit = await self._workspaces.source(workspace, use)
                key = (*key[:-1], commit)
                if key not in self._kept:
                    self._kept[key] = await project_agents(self.own, mirror.git_dir, commit, trusted=workspace.trusted)
                    stranger = await project_agents(self.own, mirror.git_dir, commit, trusted="")
                    self._publish(commit, stranger)
        self._kept.move_to_end(key)
        known = self._kept[key]
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return known

    def cards(self) -> tuple[ProjectCards, ...]:
        """What the latest repositories bring, as those see it who do not trust them."""
        return tuple(self._published.values())

    def _publish(self, commit: str, known: Known) -> None:
        cards = [card(agent) for name, agent in known.agents.items() if agent is not self.own.agents.get(name)]
        if not cards:
            return
        short = (one.model_copy(update={"description": one.description[:MAX_DESCRIPTION_CHARS]}) for one in cards)
        tenant = acting_tenant()
        self._published[tenant, commit] = ProjectCards(tenant=tenant, commit=commit, agents=tuple(short))
        if len(self._published) > MAX_PUBLISHED:
            self._published.popitem(last=False)
