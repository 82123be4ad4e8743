"""The agents that live workers offer; names that people write are checked against it before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envelope.agents import AgentCard, WorkerCard

from .errors import UnknownName, near_miss

PEOPLE_START = frozenset({"primary", "all"})


def agents_of(workers: Iterable[WorkerCard]) -> dict[str, AgentCard]:
    """All agents by name. While a fleet is being upgraded two workers may differ: the newest version's card counts."""
    by_age = sorted(workers, key=lambda worker: _numbers(worker.version))
    return {agent.name: agent for worker in by_age for agent in worker.agents}


def agent_named(name: str, workers: Iterable[WorkerCard], *, by_person: bool = True) -> AgentCard:
    """The agent's card; `UnknownName` when nobody offers it, or when it is not one that people start."""
    agents = agents_of(workers)
    card = agents.get(name)
    startable = {known for known, agent in agents.items() if agent.mode in PEOPLE_START and not agent.hidden}
    if card is None:
        raise UnknownName(f"there is no agent {name!r}", hint=near_miss(name, startable if by_person else agents))
    if by_person and name not in startable:
        raise UnknownName(
            f"the agent {name!r} is a {card.mode}: it is started by other agents or by batches, not directly",
            hint=f"start one of: {', '.join(sorted(startable))}",
        )
    return card


def require_pools(pools: Iterable[str], workers: Iterable[WorkerCard]) -> None:
    """`UnknownName` unless a live worker serves each pool."""
    served = {worker.pool for worker in workers}
    for pool in pools:
        if pool not in served:
            raise UnknownName(f"no live worker serves the pool {pool!r}", hint=f"start one: muster-worker {pool}")


def _numbers(version: str) -> tuple[int, ...]:
    """As texts, 0.10 would be older than 0.9."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
