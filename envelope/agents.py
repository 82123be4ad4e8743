"""What workers tell about themselves, so that the orchestrator can check names without importing them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from .scope import Scope
from .wire import Wire

# Their pool. Under a tenant's cap they do not count: what they do is done by tasks of other pools.
DRIVERS = "orchestrator"
# Drivers, by which lists, budgets and pages tell goals, batches and the like from agents' tasks.
DRIVER_NAMES = ("run", "batch", "fanout", "eval")


class AgentCard(Wire):
    """`mode` is primary, subagent, all, recipe or driver.

    It is no closed list: one worker of a newer fleet must not make all the others' cards unreadable.
    """

    name: str
    mode: str
    pool: str
    description: str = ""
    hidden: bool = False
    auth_scope: Scope = ()  # what the agent gets when its caller names no scope
    model: str = ""  # the agent's own; empty: the worker's
    fallback_models: tuple[str, ...] = ()  # which go on where that one fails
    # The file that it comes from: a user's by its whole path, a repository's relative to its root; empty: built-in.
    origin: str = ""
    rules: tuple[tuple[str, str, str], ...] = ()  # permission, pattern, action; the last match wins
    # Its model's settings, as far as its file names them; its prompt stays with its worker.
    variant: str = ""
    temperature: float | None = None
    top_p: float | None = None
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    max_turns: int | None = None
    tools: tuple[str, ...] = ("*",)  # those that it is offered at all; wildcards
    color: str = ""  # for people's screens
    skills: tuple[str, ...] = ()  # whose instructions it has from the start
    in_background: bool = False  # whoever starts it does not wait
    never_asks: bool = False  # what would be asked is denied
    engine: str = "loop"  # who leads its sessions: our loop, or a program of others (`acp`)
    digest: str = ""  # of all that its file says of its work, the prompt included


class ProjectCards(Wire):
    """The agents that a repository brings at a commit, as they are for whoever does not trust it.

    They are for the tenant that brought it: a commit's id opens no repository. An older worker names none.
    """

    commit: str
    tenant: str = ""
    agents: tuple[AgentCard, ...] = ()


class ModelPrice(Wire):
    """Micro-dollars for a million tokens that are sent, and that come back."""

    input_microusd: int
    output_microusd: int


def price_line(model: str) -> str:
    """For the workers' environment, to paste: a price of $1 and $5 for a million tokens, as an example."""
    return f"export MUSTER_PRICES='{json.dumps({model: {'input': 1_000_000, 'output': 5_000_000}})}'"


def price_hint(model: str) -> str:
    """What helps where nobody knows a price. No price helps a name without its provider, which is asked nowhere.

    >>> price_hint("gpt-9")
    'name its provider, too, as in openai/gpt-9 or anthropic/gpt-9'
    """
    if "/" not in model:
        return f"name its provider, too, as in openai/{model} or anthropic/{model}"
    return f"say it to the workers, in micro-dollars for a million tokens: {price_line(model)}"


class WorkerCard(Wire):
    """One live worker process (or orchestrator) and what it serves.

    `is_signed`: whether a holder of the fleet's keyring has said all of it; whoever reads a card decides that. One that
    nobody has signed tells of a process, and offers no agents.
    """

    worker: str
    pool: str
    slots: int
    agents: tuple[AgentCard, ...] = ()
    projects: tuple[ProjectCards, ...] = ()  # of repositories that it has worked on lately
    host: str = ""
    pid: int = 0
    metrics_port: int = 0
    version: str = ""
    model: str = ""  # what answers when a task names none
    price: ModelPrice | None = None  # of this model; None: nobody knows it
    commands: int = 0  # that run at once on its host, by all workers of the fleet there; 0: nothing is told of it
    is_signed: bool = True


class CommandCard(Wire):
    """What the orchestrator may know about a command: who runs it. `source` is builtin, repository or user.

    `agent` and `model` are empty, and `subtask` is None, where the command's file says nothing. `of_session`: it is
    about a session that there is, and no agent is asked.
    """

    name: str
    description: str = ""
    agent: str = ""
    model: str = ""
    subtask: bool | None = None
    source: str = "builtin"
    of_session: bool = False


class AgentFault(Wire):
    """What is wrong with an agent's file, and what to do about it."""

    path: str
    name: str
    message: str
    hint: str = ""
    key: str = ""


class AgentDetail(AgentCard):
    """All that its file says."""

    prompt: str = ""


class AgentCatalogue(Wire):
    """The agents that somebody has. `unusable`: names that a file takes, and why nobody may start them."""

    agents: tuple[AgentDetail, ...] = ()
    faults: tuple[AgentFault, ...] = ()
    unusable: dict[str, AgentFault] = Field(default_factory=dict[str, "AgentFault"])


class ToolOffer(Wire):
    """`layer` decided whether an agent is offered a tool, `why` in its words."""

    tool: str
    offered: bool
    layer: str
    why: str
