"""An agent: a persona as data. Nothing here runs; the loop, the permissions and the queue read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envelope.scope import Scope

from ..permissions.rules import Rule

Mode = Literal["primary", "subagent", "all", "recipe"]


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
    max_turns: int | None = None
    temperature: float | None = None
    rules: tuple[Rule, ...] = ()
    fixed: tuple[Rule, ...] = ()  # denies that no later layer lifts
    tools: tuple[str, ...] = ("*",)  # the tools that are offered at all; wildcards
    auth_scope: Scope | None = None  # None: inherits its caller's
    prompt: str = ""
    returns_patch: bool = True  # False: what it leaves in its workspace is litter
    counts_tests: bool = False  # of a recipe: each command's tests are counted, and the tree they ran on is named
    origin: str = ""  # the file that it comes from; empty: built-in
    stops_at_failure: bool = True  # of a recipe: False when failures are what it is asked to find out
