"""An agent: a persona as data. Nothing here runs; the loop, the permissions and the queue read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envelope.scope import Scope

from ..permissions.rules import Rule

Mode = Literal["primary", "subagent", "all", "recipe"]
# Who leads the session: our loop, or a program in the sandbox that speaks the Agent Client Protocol.
Engine = Literal["loop", "acp"]


@dataclass(frozen=True, slots=True)
class Agent:
    """`primary` agents are started by people, `subagent` ones by agents, `all` by both; a `recipe` calls no model."""

    name: str
    description: str
    mode: Mode
    pool: str  # the queue that serves it
    hidden: bool = False
    disabled: bool = False  # the file takes the agent of this name away
    color: str = ""  # for people's screens
    model: str = ""  # "": the worker's
    fallback_models: tuple[str, ...] = ()  # which go on in its place, in their order, when it fails or refuses
    max_turns: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    variant: str = ""  # how hard its model thinks: low, medium, high, max
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of its model; see `llm.options`
    rules: tuple[Rule, ...] = ()
    fixed: tuple[Rule, ...] = ()  # denies that no later layer lifts
    tools: tuple[str, ...] = ("*",)  # the tools that are offered at all; wildcards
    auth_scope: Scope | None = None  # None: inherits its caller's
    prompt: str = ""
    skills: tuple[str, ...] = ()  # whose instructions it has from the start
    in_background: bool = False  # whoever starts it does not wait
    never_asks: bool = False  # what would be asked is denied
    returns_patch: bool = True  # False: what it leaves in its workspace is litter
    counts_tests: bool = False  # of a recipe: each command's tests are counted, and the tree they ran on is named
    origin: str = ""  # the file that it comes from; empty: built-in
    stops_at_failure: bool = True  # of a recipe: False when failures are what it is asked to find out
    engine: Engine = "loop"
    # The rest is of a program (see `workers/acp/`): how it is started, and in which of its own modes it works.
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])  # `${relay}` and the like: see `program.py`
    session_mode: str = ""
    # Of its file: the fields above that it names, which are all that it changes of an agent that it overrides; and the
    # keys that are not followed, each with what is left out and what to do.
    named_fields: frozenset[str] = frozenset()
    unheeded: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    @property
    def model_options(self) -> dict[str, Any]:
        return {**self.options, **({} if self.top_p is None else {"top_p": self.top_p})}

    # What files call them.

    @property
    def steps(self) -> int | None:
        return self.max_turns

    @property
    def permission(self) -> tuple[Rule, ...]:
        return self.rules

    @property
    def disable(self) -> bool:
        return self.disabled
