"""What a prompt submits: a goal for the session's agent, in the session's repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envelope.agents import AgentCard
from envelope.budget import Budget
from envelope.messages import Attachment, TaskRequest, Workspace
from envelope.scope import Scope
from repo.local import LocalRepository, describe

from ..agent_files import project_cards
from ..approvals import ask_terms
from ..catalogue import PEOPLE_START, agents_of, default_agent
from ..client import Muster
from ..errors import BadInput
from ..goals import doers_of, goal_for
from ..project.file import Defaults, project_defaults, unused_keys
from ..project.gate_rules import gate_rules
from ..resume import inherited_fields, terms_in
from ..settings import Settings
from ..starting import starting_point
from ..submit import GoalFields, scope_of
from ..trust import TrustStore, trusted_digest
from .book import Kept
from .prompts import Prompt

MAX_NAMED = 5  # uncommitted files in a line


@dataclass(frozen=True, slots=True)
class Terms:
    """What the editor's user has said of all their goals, on the command line of `muster acp`."""

    gate: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    allow: Scope = ()
    budget_microusd: int | None = None
    deadline_s: int | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Desk:
    """A repository as a session meets it, at the commit that the session began with."""

    local: LocalRepository
    trusted: str
    project: Sequence[AgentCard]
    defaults: Defaults

    @property
    def root(self) -> Path:
        return self.local.root


async def desk_of(muster: Muster, cwd: str, workspace: Workspace | None = None) -> Desk:
    """`RepositoryMissing` for what is in no repository.

    `workspace`: of a session's first prompt; later ones keep to its commit, whatever was committed since.
    """
    if not Path(cwd).is_absolute():
        raise BadInput(f"{cwd[:200]!r} is no absolute path", hint="name the folder of a git repository")
    local = await describe(Path(cwd))
    store = TrustStore(muster.settings.state_dir)
    if workspace is not None:
        local, trusted = replace(local, head=workspace.base), workspace.trusted
    elif muster.settings.read_only:
        trusted = ""
    else:
        trusted = await trusted_digest(store, local.root, local.git_dir, local.head)
    project = [] if muster.settings.read_only else await project_cards(local, trusted, wanted="")
    defaults = await project_defaults(local, muster.settings, is_trusted=bool(trusted))
    return Desk(local, trusted, project, defaults)


async def visible_agents(muster: Muster, desk: Desk) -> tuple[list[AgentCard], str]:
    """Those that people start, by name, and which of them is the default."""
    workers, commit, tenant = await muster.workers(), desk.local.head, muster.settings.tenant
    agents = agents_of(workers, commit=commit, tenant=tenant) | {card.name: card for card in desk.project}
    seen = sorted(card.name for card in agents.values() if card.mode in PEOPLE_START and not card.hidden)
    wanted = desk.defaults.agent or muster.settings.default_agent
    usual = default_agent(wanted, workers, commit=commit, tenant=tenant, project=desk.project)
    return [agents[name] for name in seen], usual.name


async def goal_of(
    muster: Muster, kept: Kept, desk: Desk, prompt: Prompt, terms: Terms, tell: Callable[[str], object]
) -> TaskRequest:
    """`tell` hears what a person should know of it beforehand. A session that goes on has the terms of its last goal,
    but for what the editor's command line says."""
    workspace = await _workspace(muster, kept, desk, terms, tell)
    settings, workers = muster.settings, await muster.workers()
    doers = doers_of(kept.mode, workers, commit=workspace.base, tenant=settings.tenant, project=desk.project)
    before = await terms_in(muster.transport, kept.session, settings.tenant) if kept.session else None
    goal = before.goal if before else None
    deadline_s = terms.deadline_s or desk.defaults.deadline_s
    fields: GoalFields = {
        "workspace": workspace,
        "gate": desk.defaults.gate,
        "gate_rules": gate_rules((), desk.defaults.gate_rules),
        "auth_scope": (*scope_of(doers.agent), *terms.allow),
        "budget": _budget(terms, goal, desk.defaults, settings),
        "deadline_ms": goal.deadline_ms if goal and not terms.deadline_s else deadline_s and deadline_s * 1000,
        "model": terms.model or (goal.model if goal else desk.defaults.model),
        "asks": ask_terms(settings, (desk.root,), no_input=settings.read_only),
        "attachments": await _attached(muster, prompt),
        "sender": "acp",
        "session": kept.session,
        "near": kept.near,
    }
    fields |= inherited_fields(before) if before else {}
    fields |= {"gate": terms.gate} if terms.gate else {}
    return goal_for(prompt.text, doers, settings, **fields)


def _budget(terms: Terms, goal: TaskRequest | None, defaults: Defaults, settings: Settings) -> Budget:
    """The cap is of each prompt by itself. `goal`: the session's last."""
    if terms.budget_microusd is None and goal is not None:
        return goal.budget
    cap = defaults.budget_microusd if terms.budget_microusd is None else terms.budget_microusd
    return Budget(max_cost_microusd=settings.budget_microusd if cap is None else cap)


async def _workspace(muster: Muster, kept: Kept, desk: Desk, terms: Terms, tell: Callable[[str], object]) -> Workspace:
    """Of a session that goes on its own: its work so far is on top of that commit."""
    if kept.session and (workspace := await workspace_of(muster, kept)):
        return workspace.model_copy(update={"setup": terms.setup}) if terms.setup else workspace
    local = await starting_point(desk.root, allow_dirty=True, tell=lambda _: None)
    if left := (*local.dirty, *local.untracked):
        named = ", ".join(left[:MAX_NAMED]) + (" …" if len(left) > MAX_NAMED else "")
        tell(f"It works on the last commit ({local.head[:8]}), without your uncommitted changes: {named}\n")
    if unused := unused_keys(desk.defaults, desk.root):
        tell(f"{unused}\n")
    return await muster.pack(local.place, commit=local.head, setup=terms.setup or desk.defaults.setup)


async def workspace_of(muster: Muster, kept: Kept) -> Workspace | None:
    """Where the session's work began; None before its first prompt."""
    return (await muster.request(kept.tasks[-1])).workspace if kept.tasks else None


async def _attached(muster: Muster, prompt: Prompt) -> tuple[Attachment, ...]:
    return tuple(
        [await muster.attach(file.content, name=file.name, media_type=file.media_type) for file in prompt.files]
    )
