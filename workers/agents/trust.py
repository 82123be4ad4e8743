"""What an agent of a repository that nobody trusts may be: never more than the built-in agent of its kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from envelope.pattern import covers, match
from envelope.reach import is_named
from envelope.scope import Scope, split

from ..errors import BadAgent
from ..permissions.ceiling import frees, under
from ..permissions.rules import DEFAULTS, Action, Rule
from .base import Agent

# An agent that replaces no built-in one is measured by the one that does the same for people, or for agents.
KIND_OF_MODE = {"primary": "build", "all": "build", "subagent": "general", "recipe": "recipe"}


def narrowed(
    agent: Agent, builtin: Mapping[str, Agent], permission: tuple[Rule, ...] = ()
) -> tuple[Agent, tuple[str, ...]]:
    """The agent as a stranger's, and in sentences what was taken from it. Its rules are all that hold for it.

    `permission` is what the user says of all agents. `BadAgent` when nothing is left of its scope.
    """
    if agent.engine != "loop":
        raise BadAgent("it runs a program of its own, which people must trust", hint="muster trust", key="engine")
    kind = builtin.get(agent.name) or builtin[KIND_OF_MODE[agent.mode]]
    ceiling = (*DEFAULTS, *kind.rules, *permission)
    lost = [
        f"`{rule.permission}: {rule.pattern}: {rule.action}` allows no more than the agent {kind.name!r} may"
        for rule in agent.rules
        if rule.action is not Action.DENY and frees(ceiling, rule)
    ]
    scope = _scope(kind.auth_scope, agent.auth_scope)
    if agent.auth_scope is not None and scope is not None:
        lost += [f"the grant `{grant}` is not given" for grant in agent.auth_scope if grant not in scope]
    lost += [f"the model {name!r} is not used" for name in (agent.model, *agent.fallback_models) if name]
    if agent.options or agent.variant:
        lost.append("its options of the model are not used")
    pools = {known.pool for known in builtin.values()}
    stranger = replace(
        agent,
        rules=under(ceiling, agent.rules),
        fixed=(*kind.fixed, *agent.fixed),
        auth_scope=scope,
        model="",
        fallback_models=(),
        variant="",
        options={},
        pool=kind.pool if agent.name == kind.name or agent.pool not in pools else agent.pool,
        named_fields=agent.named_fields - {"model", "fallback_models", "variant"},
    )
    return stranger, tuple(lost)


def _scope(kind: Scope | None, wanted: Scope | None) -> Scope | None:
    """The grants of each that are plainly within the other; nothing costs more than a hostile file may ask for.

    A way out of the sandbox only people and operators open.
    """
    if wanted is None:
        return kind
    inside = tuple(grant for grant in wanted if not is_named(split(grant)[0]))
    kept = inside if kind is None else _common(kind, inside)
    if not kept:
        hint = f"it may ask for: {', '.join(kind)}" if kind else "what opens a way out is granted by people alone"
        raise BadAgent("nothing of its scope may be given to it", hint=hint)
    return kept


def _common(kind: Scope, wanted: Scope) -> Scope:
    within = (grant for grant in wanted if _is_granted(kind, grant))
    whole = (f"{tool}:{pattern}" for tool, pattern in map(split, kind) if _has_whole(wanted, tool))
    return tuple(dict.fromkeys((*within, *whole)))


def _is_granted(scope: Scope, grant: str) -> bool:
    tool, pattern = split(grant)
    return covers([held for name, held in map(split, scope) if name == tool], pattern)


def _has_whole(scope: Scope, tool: str) -> bool:
    return any(match(name, tool) and pattern in ("*", "**") for name, pattern in map(split, scope))
