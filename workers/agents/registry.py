"""Agents as files: Markdown with a YAML front matter; the body is the prompt."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from envelope.agents import AgentCard
from envelope.near import close_names
from envelope.pattern import match
from envelope.redaction import redact
from envelope.scope import Scope

from ..errors import BadAgent
from ..front_matter import TYPED, BadFrontMatter, read_front_matter
from ..hints import nearest
from ..llm.options import KNOWN as KNOWN_OPTIONS
from ..llm.options import unsent
from ..permissions.rules import Action, Rule
from .base import Agent, Engine, Mode
from .claude_code import HINTS, READ_ONLY_MODE, REFUSED_HINT, PermissionMode, held_hooks, named, spawned, unheeded
from .dialects import denials, permission_rules, switch_rules, switches

EDITING = ("edit", "write", "apply_patch")
# One thing, and what it is called in files that were written for other tools.
SAME_AS = {
    "steps": "max_turns",
    "maxSteps": "max_turns",
    "maxTurns": "max_turns",
    "effort": "variant",
    "disallowedTools": "denied_tools",
    "permissionMode": "permission_mode",
    "mcpServers": "mcp_servers",
    "initialPrompt": "initial_prompt",
}
# Names of sizes, which another product resolves: they name no model here, so the worker's own answers.
NO_MODELS = frozenset({"inherit", "sonnet", "opus", "haiku"})
COLORS = (
    *("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink"),
    *("primary", "secondary", "accent", "success", "warning", "error", "info"),
)
COLOR = re.compile(rf"#[0-9a-fA-F]{{6}}|{'|'.join(COLORS)}")
# In other programs' files this is the prompt; here the body is, and one of the two would be lost.
NOT_OURS = {"prompt": "the prompt is what stands below the second `---`"}
# So near a key of ours that nobody means an option of the model.
MISSPELT = 0.85
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The values of these keys are few, so that a wrong one has a near miss.
FEW = {"mode": get_args(Mode), "engine": get_args(Engine), "permissionMode": get_args(PermissionMode)}
# How hard a model may be asked to think. Other names are variants that somebody's own OpenCode configuration defines.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Whose value was wrong in a way that the message alone does not mend: what to write instead.
VALUE_HINTS = {
    "hooks": REFUSED_HINT,
    "tools": "a part stands in rules: permission: {bash: {'*': deny, 'git diff *': allow}}",
}
# Our name of a key → the field of an agent that it sets, where that has another name.
BOTH = ("max_turns", "variant", "denied_tools")
FIELDS = {"disable": "disabled", "scope": "auth_scope", "background": "in_background", "permission_mode": "never_asks"}


def _number(written: object) -> object:
    """A number that stands in quotes is meant as one; `ValueError` and what else it may be is for the field."""
    if isinstance(written, str):
        with suppress(ValueError):
            return int(written)
        with suppress(ValueError):
            return float(written)
    return written


class FrontMatter(BaseModel):
    """The keys of an agent's file. Strict: YAML has types, and `hidden: "no"` would be true elsewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    description: str = ""
    name: str = Field(default="", pattern=r"^[\w.-]+(/[\w.-]+)*$")
    mode: Mode = "all"
    pool: str = ""
    hidden: bool = False
    disable: bool = False
    color: str = ""
    model: str = Field(default="", pattern=r"^\S+$")
    models: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = Field(default=(), strict=False)
    max_turns: Annotated[int | None, BeforeValidator(_number)] = Field(default=None, ge=1)
    temperature: Annotated[float | None, BeforeValidator(_number)] = Field(
        default=None, ge=0, le=2, allow_inf_nan=False
    )
    top_p: Annotated[float | None, BeforeValidator(_number)] = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    variant: str = Field(default="", pattern=r"^[\w.-]+$")
    options: dict[str, Any] = Field(default_factory=dict[str, Any])
    permission: Annotated[tuple[Rule, ...], BeforeValidator(permission_rules)] = ()
    fixed: Annotated[tuple[Rule, ...], BeforeValidator(permission_rules)] = ()
    tools: Any = ("*",)
    denied_tools: Annotated[tuple[Rule, ...], BeforeValidator(denials)] = ()
    scope: Scope | None = Field(default=None, strict=False)
    returns_patch: bool = True
    counts_tests: bool = False
    stops_at_failure: bool = True
    engine: Engine = "loop"
    command: tuple[str, ...] = Field(default=(), strict=False)
    env: dict[str, str] = Field(default_factory=dict[str, str])
    session_mode: str = ""
    # Of other programs' files, see `claude_code.py`.
    skills: Annotated[tuple[str, ...], BeforeValidator(named)] = Field(default=(), strict=False)
    background: bool = False
    permission_mode: PermissionMode = "default"
    hooks: Annotated[Any, BeforeValidator(held_hooks)] = None
    memory: Any = None
    isolation: Any = None
    mcp_servers: Any = None
    initial_prompt: Any = None

    @field_validator("fixed")
    @classmethod
    def _only_denies(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        if any(rule.action is not Action.DENY for rule in rules):
            raise ValueError("holds denies only")
        return rules

    @field_validator("tools")
    @classmethod
    def _known_form(cls, written: object) -> object:
        plain, _ = spawned(written)
        switches(plain)
        switch_rules(plain, ())
        return written

    @field_validator("env")
    @classmethod
    def _no_secrets(cls, env: dict[str, str]) -> dict[str, str]:
        if wrong := next((name for name in env if not VARIABLE.fullmatch(name)), None):
            raise ValueError(f"{reprlib.repr(wrong)} is no name of a variable")
        if secret := next((name for name, value in env.items() if redact(value) != value), None):
            raise ValueError(f"{secret} looks like a secret, and none enters a sandbox; the relay adds the model's key")
        return env

    @model_validator(mode="after")
    def _program(self) -> Self:
        if self.engine == "acp" and not (self.command and self.command[0].strip()):
            raise ValueError("engine: acp needs a command: [program, argument, …]")
        if self.engine == "loop" and (self.command or self.env or self.session_mode):
            raise ValueError("command, env and session_mode are of an agent with engine: acp")
        if self.engine == "acp" and self.mode == "recipe":
            raise ValueError("a recipe calls no model, and engine: acp is one that does")
        return self

    @property
    def all_models(self) -> tuple[str, ...]:
        """`model`, then `models`, each once."""
        return tuple(dict.fromkeys(name for name in (self.model, *self.models) if name and name not in NO_MODELS))

    @property
    def rules(self) -> tuple[Rule, ...]:
        _, spawning = spawned(self.tools)
        return switch_rules(self.tools, self.permission) + spawning + self.permission + self.denied_tools

    @property
    def offered(self) -> tuple[str, ...]:
        return switches(spawned(self.tools)[0])

    @property
    def held(self) -> tuple[Rule, ...]:
        return (*self.fixed, *(READ_ONLY_MODE if self.permission_mode == "plan" else ()))

    @property
    def named_fields(self) -> frozenset[str]:
        """The fields of an agent that the file sets. Rules and options are added to others, and a map of switches is
        rules."""
        added = (
            "permission",
            "denied_tools",
            "fixed",
            "options",
            *(("tools",) if isinstance(self.tools, dict) else ()),
        )
        named = {FIELDS.get(key, key) for key in self.model_fields_set.difference(added)}
        return frozenset(named | ({"model", "fallback_models"} if named & {"model", "models"} else set[str]()))


# Names of ours for what is only written as others do are told to nobody.
KEYS = (*(key for key in FrontMatter.model_fields if key not in SAME_AS.values() or key in BOTH), *SAME_AS)


def parse_agent(name: str, text: str) -> Agent:
    """One agent from the text of its file; `BadAgent` says what is wrong and, where it can, what was meant.

    `name` is the file's, its path below the folder without the suffix; a name in the front matter goes before it. Keys
    that are none of an agent are options of its model, unless they look misspelt.
    """
    front, prompt = _split(name, text)
    matter = _validated(name, front)
    return Agent(
        name=matter.name or name,
        description=matter.description,
        mode=matter.mode,
        pool=matter.pool or _default_pool(matter),
        hidden=matter.hidden,
        disabled=matter.disable,
        color=matter.color if COLOR.fullmatch(matter.color) else "",
        model=matter.all_models[0] if matter.all_models else "",
        fallback_models=matter.all_models[1:],
        max_turns=matter.max_turns,
        temperature=matter.temperature,
        top_p=matter.top_p,
        variant=matter.variant if matter.variant in EFFORTS else "",
        options={**matter.options, **{key: front[key] for key in front if _is_option(key)}},
        rules=matter.rules,
        fixed=matter.held,
        tools=matter.offered,
        auth_scope=matter.scope,
        prompt=prompt,
        skills=matter.skills,
        in_background=matter.background,
        never_asks=matter.permission_mode == "dontAsk",
        returns_patch=matter.returns_patch,
        counts_tests=matter.counts_tests,
        stops_at_failure=matter.stops_at_failure,
        engine=matter.engine,
        command=matter.command,
        env=matter.env,
        session_mode=matter.session_mode,
        named_fields=matter.named_fields.union(("prompt",) if prompt.strip() else ()),
        unheeded=_unheeded(front),
    )


def remarks(agent: Agent) -> list[tuple[str, str, str]]:
    """What is odd about an agent that can be used: the key, the fault, the hint."""
    known = (*KEYS, *sorted(KNOWN_OPTIONS))
    found = [
        (name, f"agent {agent.name!r} has an unknown key {name!r}, which no model is sent", nearest(name, known))
        for name in unsent(agent.options)
    ]
    found += [(key, f"agent {agent.name!r}: {key}: {what}", hint) for key, (what, hint) in agent.unheeded.items()]
    if agent.description or agent.disabled:
        return found
    said = "description: is missing, so nobody can tell when to use it"
    return [*found, ("description", f"agent {agent.name!r}: {said}", "say in a sentence when to use this agent")]


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
        model=agent.model,
        fallback_models=agent.fallback_models,
        origin=agent.origin,
        rules=tuple((rule.permission, rule.pattern, rule.action.value) for rule in (*agent.rules, *agent.fixed)),
        variant=agent.variant,
        temperature=agent.temperature,
        top_p=agent.top_p,
        options=dict(agent.options),
        max_turns=agent.max_turns,
        tools=agent.tools,
        color=agent.color,
        skills=agent.skills,
        in_background=agent.in_background,
        never_asks=agent.never_asks,
        engine=agent.engine,
        digest=_digest(agent),
    )


def _digest(agent: Agent) -> str:
    """Another one for an agent that would work otherwise. The values of its environment are left out: cards are read by
    all, and a short secret could be guessed from a digest of it."""
    shown_only = {"description", "hidden", "disabled", "color", "origin", "named_fields", "unheeded"}
    said = {each.name: getattr(agent, each.name) for each in fields(Agent) if each.name not in shown_only}
    text = json.dumps({**said, "env": sorted(agent.env)}, default=repr, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def problems(name: str, text: str) -> list[BadAgent]:
    """All that `parse_agent` would refuse the file for, not only the first."""
    try:
        front, _ = _split(name, text)
    except BadAgent as e:
        return [e]
    found, written_as = list[BadAgent](), dict[str, str]()
    for key, value in front.items():
        try:
            written_as |= _our_keys(name, {**{written: front[written] for written in written_as.values()}, key: value})
        except BadAgent as e:
            found.append(e)
    try:
        _matter(front, written_as)
    except ValidationError as e:
        found += [_fault(name, front, written_as, error) for error in e.errors()]
    return found


def _validated(name: str, front: Mapping[str, Any]) -> FrontMatter:
    written_as = _our_keys(name, front)
    try:
        return _matter(front, written_as)
    except ValidationError as e:
        first = e.errors()[0]
    raise _fault(name, front, written_as, first)


def _matter(front: Mapping[str, Any], written_as: Mapping[str, str]) -> FrontMatter:
    return FrontMatter.model_validate({ours: front[written] for ours, written in written_as.items()})


def _fault(name: str, front: Mapping[str, Any], written_as: Mapping[str, str], error: ErrorDetails) -> BadAgent:
    key = written_as[str(error["loc"][0])] if error["loc"] else ""
    said = error["msg"].removeprefix("Value error, ")
    if key in FEW:
        hint = nearest(str(front[key]), FEW[key], called="known values")
    else:
        hint = VALUE_HINTS.get(key) or (f"correct the value of {key}" if key else f"known keys: {', '.join(KEYS)}")
    return BadAgent(f"agent {name!r}: {f'{key}: ' if key else ''}{said}", hint=hint, key=key)


def _our_keys(name: str, front: Mapping[str, Any]) -> dict[str, str]:
    """Our name of each key that is written → how it is written."""
    ours: dict[str, str] = {}
    for key, value in front.items():
        known = SAME_AS.get(key, key)
        if known not in FrontMatter.model_fields and not _is_option(key):
            fault = f"agent {name!r} has an unknown key {reprlib.repr(key)}"
            hint = NOT_OURS.get(key) or nearest(key, KEYS)
        elif known in ours:
            fault, hint = f"agent {name!r} says one thing as {ours[known]!r} and as {key!r}", "keep one of them"
        elif value is None:
            fault, hint = f"agent {name!r}: {key}: has no value", "remove the line, or quote what is in it"
        else:
            if not _is_option(key):
                ours[known] = key
            continue
        raise BadAgent(fault, hint=hint, key=key)
    return ours


def _unheeded(front: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    written = {SAME_AS.get(key, key): value for key, value in front.items()}
    found = unheeded({key: written.get(SAME_AS.get(key, key)) for key in HINTS})
    if (effort := written.get("variant")) and effort not in EFFORTS:
        key = "effort" if "effort" in front else "variant"
        found[key] = (
            f"{reprlib.repr(effort)} is not sent, no model knows it",
            nearest(effort, EFFORTS, called="known values"),
        )
    if (color := written.get("color", "")) and not COLOR.fullmatch(color):
        found["color"] = (f"{reprlib.repr(color)} is no colour", nearest(color, (*COLORS, "'#rrggbb'")))
    return found


def _is_option(key: str) -> bool:
    return key not in KEYS and key not in NOT_OURS and not close_names(key, KEYS, cutoff=MISSPELT)


def _default_pool(matter: FrontMatter) -> str:
    """Explore when it cannot edit, build when it can."""
    rules = matter.rules + matter.held
    last = next((rule.action for rule in reversed(rules) if rule.permission in ("edit", "*")), Action.ALLOW)
    in_scope = matter.scope is None or any(grant.startswith(("edit:", "*:")) for grant in matter.scope)
    has_tool = any(match(switch, tool) for switch in matter.offered for tool in EDITING)
    return "build" if last is not Action.DENY and in_scope and has_tool else "explore"


def _split(name: str, text: str) -> tuple[dict[str, Any], str]:
    """The keys and the body of an agent's file, which must have keys; `BadAgent` names the line that is broken."""
    try:
        keys, body = read_front_matter(text, TYPED)
    except BadFrontMatter as e:
        raise BadAgent(f"agent {name!r}: {e.fault}", hint=e.hint) from e
    if keys is None:
        raise BadAgent(f"agent {name!r} has no front matter", hint="start the file with `---`, keys, and `---` again")
    return keys, body
