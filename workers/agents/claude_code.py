"""The keys of Claude Code's subagent files that mean nothing to a runtime of ours, or something else. Pure.

As code.claude.com/docs/en/sub-agents and …/permission-modes have them (read on 2026-11-27). What restricts is held, or
the file is refused; what widens or adds comfort is left out, and people are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from ..permissions.rules import Action, Rule

# `manual` is another word for `default`.
PermissionMode = Literal["default", "manual", "acceptEdits", "auto", "dontAsk", "bypassPermissions", "plan"]
# Whoever works in this mode changes nothing, and no rule lifts that.
READ_ONLY_MODE = (Rule("edit", "*", Action.DENY),)
# A hook of these can refuse a call: its agent is meant to do less than one without it.
_REFUSING_HOOKS = ("PreToolUse", "PermissionRequest")
_WIDER_MODES = ("acceptEdits", "auto", "bypassPermissions")
REFUSED_HINT = "write what it refuses under `permission` or `fixed`, and remove it; an operator can install one"
_SPAWNS = re.compile(r"\b(?:Agent|Task)\s*\(([^()]*)\)")

# key as it is written → what to do about it
HINTS = {
    "memory": "nothing is remembered between tasks: write what it should know into AGENTS.md or a skill",
    "hooks": "hooks are the operator's, see docs/agents/hooks.md",
    "mcpServers": "the operator names the agents of a server: agents = [...] in [workers.mcp.NAME]",
    "isolation": "each subagent has a workspace of its own; remove the line",
    "initialPrompt": "say it in the prompt of the task",
    "permissionMode": "what may be done unasked is said under `permission`",
}


def named(written: object) -> object:
    """A list of names, which may be one text with commas."""
    if isinstance(written, str):
        return tuple(part.strip() for part in written.split(",") if part.strip())
    return written


def held_hooks(hooks: object) -> object:
    """`ValueError` for hooks that can refuse a call: they are not run here, so the agent would do more."""
    events = cast(dict[Any, object], hooks if isinstance(hooks, dict) else {})
    if found := next((event for event in _REFUSING_HOOKS if events.get(event)), None):
        raise ValueError(f"{found} can refuse calls, and hooks of files are not run")
    return cast(object, hooks)


def spawned(tools: object) -> tuple[object, tuple[Rule, ...]]:
    """`tools` with `Agent(a, b)` as the plain tool, and the rules for what stands in its brackets."""
    if isinstance(tools, str):
        names = [name.strip() for inner in _SPAWNS.findall(tools) for name in inner.split(",") if name.strip()]
        plain: object = _SPAWNS.sub("task", tools)
    elif isinstance(tools, list):
        parts = [spawned(part) if isinstance(part, str) else (part, ()) for part in cast(list[object], tools)]
        plain = [part for part, _ in parts]
        names = [rule.pattern for _, rules in parts for rule in rules if rule.action is Action.ALLOW]
    else:
        return tools, ()
    if not names:
        return plain, ()
    return plain, (Rule("task", "*", Action.DENY), *(Rule("task", name, Action.ALLOW) for name in dict.fromkeys(names)))


def without_asks(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """`permissionMode: dontAsk`: whatever would be asked is denied."""
    return tuple(
        Rule(rule.permission, rule.pattern, Action.DENY) if rule.action is Action.ASK else rule for rule in rules
    )


def unheeded(keys: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Of an agent's keys as they are written, those that are not followed → what is left out, and what to do."""
    said = {
        "memory": "is not kept",
        "hooks": "are not run",
        "mcpServers": "gives it no server",
        "initialPrompt": "is not said",
    }
    found = {key: what for key, what in said.items() if keys.get(key)}
    if (mode := keys.get("permissionMode")) in _WIDER_MODES:
        found["permissionMode"] = f"{mode} lets it do no more than its rules"
    if keys.get("isolation") not in (None, "", "worktree"):
        found["isolation"] = "is not followed"
    return {key: (what, HINTS[key]) for key, what in found.items()}
