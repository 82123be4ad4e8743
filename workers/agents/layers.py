"""Agents in layers: built-in, the user's, the project's. Pure.

Later ones replace earlier ones of their name; of a built-in agent a file changes what it names, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from envelope.agents import DRIVER_NAMES

from ..errors import BadAgent, BadInput
from ..hints import nearest
from ..permissions.rules import DEFAULTS, Rule
from .base import Agent
from .claude_code import without_asks
from .registry import builtin, parse_agent, remarks
from .trust import narrowed

# In the order in which they count: ours over those that other programs share.
FOLDERS = (".claude/agents", ".opencode/agent", ".opencode/agents", ".muster/agents")
# What a task can name (see `envelope.messages.Name`).
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,100}")
# Each is looked at for each call of a tool.
MAX_RULES = 200
TRUST = "if you know what is in its settings folders: muster trust"


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file in an agent folder. `name` is its path below the folder, without `.md`."""

    path: str
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a file is not used, or not as it is written."""

    path: str
    name: str
    message: str
    hint: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """The agents of a task by name, and what is wrong with the files that they come from.

    `unusable` has the names that a file takes, and why nobody may start them. `permission` is what the user says of all
    agents: it stands below the rules of built-in ones, and above those of files.
    """

    agents: Mapping[str, Agent]
    faults: tuple[Fault, ...] = ()
    unusable: Mapping[str, Fault] = field(default_factory=dict[str, Fault])
    permission: tuple[Rule, ...] = ()

    def named(self, name: str) -> Agent:
        """`BadInput` says why there is no such agent."""
        if fault := self.unusable.get(name):
            raise BadInput(f"{fault.path}: {fault.message}", hint=fault.hint)
        if name not in self.agents:
            raise BadInput(f"there is no agent {name!r}", hint=nearest(name, sorted(self.agents), called="there are"))
        return self.agents[name]


def builtin_agents(permission: tuple[Rule, ...] = ()) -> Known:
    """The lowest layer, under what the user says of all agents."""
    agents = {
        name: replace(agent, rules=(*agent.rules, *permission)) if _asks_a_model(agent) else agent
        for name, agent in builtin().items()
    }
    return Known(agents, permission=permission)


def with_files(below: Known, files: Iterable[AgentFile], *, trusted: bool) -> Known:
    """The agents with another layer on top; one broken file is no reason to miss the others."""
    agents, unusable, faults = dict(below.agents), dict(below.unusable), [*below.faults]
    for file in files:
        name = file.name
        try:
            name = (written := read_agent(file)).name
            if not trusted and _is_users(name, below):
                faults.append(Fault(file.path, name, "is not trusted, and you have said yourself who that is", TRUST))
                continue
            agent, lost = _admitted(written, below, agents.get(name), trusted=trusted)
        except BadAgent as e:
            faults.append(Fault(file.path, name, e.message, e.hint, e.key))
            if name not in _reserved():
                unusable[name] = faults[-1]
            continue
        faults += [Fault(file.path, name, fault, hint, key) for key, fault, hint in remarks(agent)]
        if lost:
            faults.append(Fault(file.path, name, f"is not trusted: {'; '.join(lost)}", TRUST))
        unusable.pop(name, None)
        if agent.disabled:
            agents.pop(name, None)
            unusable[name] = Fault(file.path, name, f"the agent {name!r} is disabled", "name another")
        else:
            agents[name] = agent
    return replace(below, agents=agents, faults=tuple(faults), unusable=unusable)


def read_agent(file: AgentFile) -> Agent:
    """The agent of one file; `BadAgent` for bytes that are no text, and names that no task can carry."""
    try:
        text = file.content.decode()
    except UnicodeDecodeError as e:
        raise BadAgent(f"agent {file.name!r} is no text: {e.reason}", hint="save the file as UTF-8") from e
    agent = parse_agent(file.name, text)
    if not _NAME.fullmatch(agent.name):
        hint = "names have up to 100 of: letters, digits and . _ / -"
        raise BadAgent(f"no task can name the agent {agent.name!r}", hint=hint)
    if agent.auth_scope == ():
        raise BadAgent(f"the scope of agent {agent.name!r} is empty", hint="name a grant, such as read:**, or no scope")
    if len(agent.rules) + len(agent.fixed) > MAX_RULES:
        raise BadAgent(f"agent {agent.name!r} has more than {MAX_RULES} rules", hint="use wildcards")
    if agent.name in _reserved() or agent.name in DRIVER_NAMES:
        raise BadAgent(f"the agent {agent.name!r} is the platform's own", hint="give yours another name")
    return replace(agent, origin=file.path)


def _is_users(name: str, below: Known) -> bool:
    """Has the user an agent of this name, or taken one away?"""
    return name in below.unusable or (name in below.agents and bool(below.agents[name].origin))


def _admitted(agent: Agent, below: Known, overridden: Agent | None, *, trusted: bool) -> tuple[Agent, tuple[str, ...]]:
    """The agent as this layer may bring it, and what was taken from it. Who replaces a reader gets its ban."""
    permission, lost = below.permission if _asks_a_model(agent) else (), ()
    plain = builtin_agents(permission).agents.get(agent.name)
    replaced = (plain, below.agents.get(agent.name), overridden)
    if trusted:
        bans = dict.fromkeys(rule for each in replaced if each for rule in each.fixed)
        base = overridden or plain if plain else None
        agent = replace(agent, rules=(*(base.rules if base else permission), *agent.rules), fixed=(*bans, *agent.fixed))
    else:
        agent, lost = narrowed(agent, builtin(), permission)
        base = plain
    # a program brings its own words and ways: of the agent that it stands for it has the bans
    agent = _merged(base, agent) if base and base.engine == agent.engine else agent
    if agent.never_asks:
        agent = replace(agent, rules=without_asks((*DEFAULTS, *agent.rules)))
    return agent, lost


def _merged(base: Agent, file: Agent) -> Agent:
    """The built-in agent with what the file changes of it. Rules and bans of the file hold its base's already."""
    whole = {"name", "origin", "rules", "fixed", "options", "named_fields", "unheeded"}
    kept = [each.name for each in fields(Agent) if each.name not in whole | file.named_fields]
    options = {**base.options, **file.options}
    return replace(file, options=options, **{name: getattr(base, name) for name in kept})


def _asks_a_model(agent: Agent) -> bool:
    """A recipe runs what a person wrote: what agents may do unasked is not about it."""
    return agent.mode != "recipe"


def _reserved() -> frozenset[str]:
    """Names that nobody takes: what they do decides whether a change is accepted, or works on every session."""
    return frozenset(name for name, agent in builtin().items() if agent.mode == "recipe" or agent.hidden)
