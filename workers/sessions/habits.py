"""How this worker's sessions are kept, by the operator's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..agent.policy import WindowPolicy
from ..agents.base import Agent
from ..agents.registry import builtin
from ..llm.limits import ModelLimits


@dataclass(frozen=True, slots=True)
class Habits:
    """`compacts`: when the window is full; else only when a person asks. `reserved`: tokens kept free below a model's
    own limit for its input. `prunes`: old outputs of tools are cleared. `titles`: sessions get one, by `small_model`
    where there is one, else by their own."""

    compacts: bool = True
    reserved: int | None = None
    prunes: bool = False
    titles: bool = False
    small_model: str = ""

    def policy(self, limits: ModelLimits, agents: Mapping[str, Agent]) -> WindowPolicy:
        prompt = hidden_agent("compaction", agents).prompt
        return WindowPolicy(limits, self.compacts, self.reserved, self.prunes, prompt)


def hidden_agent(name: str, agents: Mapping[str, Agent]) -> Agent:
    """People may give it other words, but not take it away."""
    agent = agents.get(name)
    return builtin()[name] if agent is None or agent.disabled else agent
