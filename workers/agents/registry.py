"""Agents as files: Markdown with a YAML front matter; the body is the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from envelope.agents import AgentCard
from envelope.scope import Scope

from ..errors import BadAgent
from ..hints import nearest
from ..permissions.rules import Action, Rule, parse_rules
from .base import Agent, Mode

FENCE = "---"

Permission = Action | dict[str, Action | dict[str, Action]]


class FrontMatter(BaseModel):
    """The keys of an agent's file. `steps` is what users of OpenCode call `max_turns`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    mode: Mode = "all"
    pool: str = ""
    hidden: bool = False
    model: str = ""
    max_turns: int | None = Field(default=None, ge=1)
    steps: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    permission: Permission = Field(default_factory=dict[str, "Action | dict[str, Action]"])
    fixed: Permission = Field(default_factory=dict[str, "Action | dict[str, Action]"])
    tools: tuple[str, ...] = ("*",)
    scope: Scope | None = None
    returns_patch: bool = True
    counts_tests: bool = False
    stops_at_failure: bool = True

    @field_validator("fixed")
    @classmethod
    def _only_denies(cls, value: Permission) -> Permission:
        if any(rule.action is not Action.DENY for rule in parse_rules(value)):
            raise ValueError("holds denies only")
        return value


def parse_agent(name: str, text: str) -> Agent:
    """One agent from the text of its file; `BadAgent` says what is wrong and, for an unknown key, what was meant."""
    front, prompt = _split(name, text)
    unknown = [key for key in front if key not in FrontMatter.model_fields]
    if unknown:
        raise BadAgent(
            f"agent {name!r} has an unknown key {unknown[0]!r}", hint=nearest(unknown[0], FrontMatter.model_fields)
        )
    try:
        matter = FrontMatter.model_validate(front)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise BadAgent(
            f"agent {name!r}: {where}: {first['msg']}", hint=f"known keys: {', '.join(FrontMatter.model_fields)}"
        ) from e
    rules, fixed = parse_rules(matter.permission), parse_rules(matter.fixed)
    return Agent(
        name=name,
        description=matter.description,
        mode=matter.mode,
        pool=matter.pool or _default_pool(rules + fixed, matter.scope),
        hidden=matter.hidden,
        model=matter.model,
        max_turns=matter.max_turns or matter.steps,
        temperature=matter.temperature,
        rules=rules,
        fixed=fixed,
        tools=matter.tools,
        auth_scope=matter.scope,
        prompt=prompt,
        returns_patch=matter.returns_patch,
        counts_tests=matter.counts_tests,
        stops_at_failure=matter.stops_at_failure,
    )


@cache
def builtin() -> Mapping[str, Agent]:
    """The agents that Muster brings, by name."""
    folder = files("workers.agents") / "builtin"
    named = ((file.name.removesuffix(".md"), file) for file in folder.iterdir() if file.name.endswith(".md"))
    return {name: parse_agent(name, file.read_text("utf-8")) for name, file in sorted(named, key=lambda pair: pair[0])}


def card(agent: Agent) -> AgentCard:
    """What the orchestrator may know about an agent."""
    return AgentCard(
        name=agent.name,
        mode=agent.mode,
        pool=agent.pool,
        description=agent.description,
        hidden=agent.hidden,
        auth_scope=agent.auth_scope or (),
    )


def _split(name: str, text: str) -> tuple[dict[str, Any], str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != FENCE or FENCE not in [line.strip() for line in lines[1:]]:
        raise BadAgent(f"agent {name!r} has no front matter", hint="start the file with `---`, keys, and `---` again")
    end = [line.strip() for line in lines].index(FENCE, 1)
    try:
        front: object = yaml.safe_load("\n".join(lines[1:end])) or {}
    except yaml.YAMLError as e:
        raise BadAgent(f"the front matter of agent {name!r} is not YAML", hint="quote values with a colon in") from e
    if not isinstance(front, dict):
        raise BadAgent(f"the front matter of agent {name!r} is no map of keys", hint="write `key: value` lines")
    return {str(key): value for key, value in cast(dict[Any, Any], front).items()}, "\n".join(lines[end + 1 :]).strip()


def _default_pool(rules: tuple[Rule, ...], scope: Scope | None) -> str:
    """Explore when it cannot edit, build when it can."""
    last = next((rule.action for rule in reversed(rules) if rule.permission in ("edit", "*")), Action.ALLOW)
    in_scope = scope is None or any(grant.startswith(("edit:", "*:")) for grant in scope)
    return "build" if last is not Action.DENY and in_scope else "explore"
