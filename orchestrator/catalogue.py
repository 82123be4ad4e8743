"""The agents that live workers offer; names that people write are checked against it before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envelope.agents import AgentCard, WorkerCard

from .errors import UnknownName, near_miss

PEOPLE_START = frozenset({"primary", "all"})
USUAL = "build"


def agents_of(workers: Iterable[WorkerCard], *, commit: str = "", tenant: str = "") -> dict[str, AgentCard]:
    """All agents by name, with those of a repository's commit that a worker has seen for this tenant: to know the
    commit of another's is not to have its repository.

    While a fleet is being upgraded two workers may differ: the newest version's card counts.
    """
    by_age = sorted(workers, key=lambda worker: _numbers(worker.version))
    everywhere = {agent.name: agent for worker in by_age for agent in worker.agents}
    projects = [project for worker in by_age for project in worker.projects]
    ours = [project for project in projects if (project.tenant, project.commit) == (tenant, commit)]
    return everywhere | {agent.name: agent for project in ours for agent in project.agents}


def is_startable(agent: AgentCard) -> bool:
    """Is it one that people start?"""
    return agent.mode in PEOPLE_START and not agent.hidden


def agent_named(
    name: str,
    workers: Iterable[WorkerCard],
    *,
    by_person: bool = True,
    commit: str = "",
    tenant: str = "",
    project: Iterable[AgentCard] = (),
) -> AgentCard:
    """The agent's card; `UnknownName` when nobody offers it, or when it is not one that people start.

    `project`: what the caller has read in its repository itself; it counts more than what workers tell of `commit`.
    """
    agents = agents_of(workers, commit=commit, tenant=tenant) | {card.name: card for card in project}
    card = agents.get(name)
    startable = {known for known, agent in agents.items() if is_startable(agent)}
    if card is None:
        hint = near_miss(name, startable if by_person else agents)
        raise UnknownName(f"there is no agent {name!r}", hint=hint + _of_unsigned(workers))
    if by_person and name not in startable:
        why = "is hidden" if card.mode in PEOPLE_START else f"is a {card.mode}"
        raise UnknownName(
            f"the agent {name!r} {why}: it is started by other agents or by batches, not directly",
            hint=f"start one of: {', '.join(sorted(startable))}",
        )
    return card


def default_agent(
    setting: str,
    workers: Iterable[WorkerCard],
    *,
    commit: str = "",
    tenant: str = "",
    project: Iterable[AgentCard] = (),
) -> AgentCard:
    """Who does a goal that names nobody. `UnknownName` when the setting names nobody that people start."""
    if setting:
        try:
            return agent_named(setting, workers, commit=commit, tenant=tenant, project=project)
        except UnknownName as e:
            raise UnknownName(f"the setting default_agent: {e.message}", hint=e.hint) from e
    agents = agents_of(workers, commit=commit, tenant=tenant) | {card.name: card for card in project}
    startable = sorted(name for name, agent in agents.items() if is_startable(agent))
    if not startable:
        hint = f"see: muster agents list{_of_unsigned(workers)}"
        raise UnknownName("there is no agent that people start", hint=hint)
    return agents[USUAL if USUAL in startable else startable[0]]


def _of_unsigned(workers: Iterable[WorkerCard]) -> str:
    names = ", ".join(sorted(worker.worker for worker in workers if not worker.is_signed))
    return f"; the agents of {names} do not count: give them this fleet's keyring, or upgrade them" if names else ""


def _numbers(version: str) -> tuple[int, ...]:
    """As texts, 0.10 would be older than 0.9."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
