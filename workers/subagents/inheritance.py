"""What holds a subagent beside its scope: whatever is denied to one of its callers, and how deep agents may go. Pure.

Both travel in its request, which is signed: another worker, with other agents and other settings, lifts neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envelope.agent_params import AgentParams
from envelope.messages import TaskRequest

from ..agent_task.params import agent_params
from ..agents.base import Agent
from ..permissions.guard import HEADLESS, Guard
from ..permissions.rules import DEFAULTS, Action, Rule

TOO_DEEP = (
    "a subagent of yours would be one level too deep here (the operator sets how deep: MUSTER_SUBAGENT_DEPTH); do the"
    " work yourself, or say in your answer what is left to do"
)


def guard_of(request: TaskRequest, agent: Agent) -> Guard:
    """What the task may do: where nobody can be asked, it is not offered to ask. `BadInput` for bad params."""
    fixed = agent.fixed if request.asks else (*agent.fixed, *HEADLESS)
    inherited = tuple(tuple(map(_rule, rows)) for rows in agent_params(request).inherited_denies)
    return Guard(request.auth_scope, (*DEFAULTS, *agent.rules), fixed, inherited)


def levels_below(request: TaskRequest, setting: int) -> int:
    """How many levels of subagents may be below a task: what its caller left it, and never more than this worker's
    setting."""
    left = agent_params(request).subagent_depth
    return setting if left is None else min(setting, left)


def as_its_caller(agent: Agent, request: TaskRequest) -> Agent:
    """The agent, thinking as hard as whoever started it where it has no way of its own."""
    variant = "" if agent.model or agent.variant else agent_params(request).variant
    return replace(agent, variant=variant) if variant else agent


def handed_down(guard: Guard, agent: Agent, levels: int) -> AgentParams:
    """What a subagent is told by a task of `agent` with so many levels below it.

    What holds for every agent (`DEFAULTS`) it is told by its own worker.
    """
    layers = (*guard.inherited, agent.fixed, as_far_as_it_denies(agent.rules))
    rows = dict.fromkeys(tuple(map(_row, layer)) for layer in layers if layer)
    return AgentParams(subagent_depth=max(0, levels - 1), inherited_denies=tuple(rows), variant=agent.variant)


def as_far_as_it_denies(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """A list that denies what `rules` deny: whatever stands before the first deny takes nothing back.

    >>> allow, deny = Rule("*", "*", Action.ALLOW), Rule("bash", "rm *", Action.DENY)
    >>> as_far_as_it_denies([allow, deny, allow]) == (deny, allow), as_far_as_it_denies([allow])
    (True, ())
    """
    first = next((at for at, rule in enumerate(rules) if rule.action is Action.DENY), len(rules))
    return tuple(rules[first:])


def _row(rule: Rule) -> tuple[str, str, bool]:
    return (rule.permission, rule.pattern, rule.action is Action.DENY)


def _rule(row: tuple[str, str, bool]) -> Rule:
    permission, pattern, denies = row
    return Rule(permission, pattern, Action.DENY if denies else Action.ALLOW)
