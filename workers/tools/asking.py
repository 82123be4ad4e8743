"""Asking people before a call runs: what they are shown of it, and what "always" would allow from then on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from envelope.events import AskOpened
from envelope.pattern import MAX_PATTERN_CHARS

from ..llm.base import ToolCall
from ..permissions.guard import Ask, Denied, Guard
from ..permissions.shell import Unparsable, read
from .base import Target, Tool, ToolContext, ToolResult
from .errors import ToolError
from .people import Asked, People

# A person reads no more before saying yes. What is longer is not asked: a yes is to what nobody read, too.
MAX_DETAIL_CHARS = 20 * 1024
# What "always" allows is what was touched, or (bash) what begins like it; of everything else all of it.
ITSELF = frozenset({"external_directory", "skill", "doom_loop"})
DOOM_LOOP = "doom_loop"
QUESTIONS = {
    "bash": "May this command run?",
    "bash_unparsed": "May this command run? What it starts, or where, cannot be told.",
    "edit": "May this change be made?",
    "external_directory": "May the agent reach outside of its workspace?",
    DOOM_LOOP: "The agent makes the same call again and again. May it once more?",
}


@runtime_checkable
class Shows(Protocol):
    """A tool that can say exactly what a call would do: the command, or the diff."""

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str: ...


def suspected(call: ToolCall, tool: Tool, people: People | None) -> list[Target]:
    """What must be asked for, too, when the call makes a circle of the last ones."""
    return [Target(DOOM_LOOP, tool.name)] if people and people.suspect == call.id else []


async def asked_first(
    call: ToolCall,
    tool: Tool,
    arguments: Mapping[str, Any],
    targets: Sequence[Target],
    context: ToolContext,
    guard: Guard,
) -> Asked | ToolResult | None:
    """One ask for each permission that needs one, in the order of the call; None when by now none does."""
    people = context.people
    if people is None:
        raise AssertionError("only where people can be asked does a verdict ask")
    await people.learn()
    verdict = guard.judge(targets, people.approved)
    if isinstance(verdict, Denied):
        return ToolResult(verdict.reason, title=tool.title(arguments), is_error=True)
    if not isinstance(verdict, Ask):
        return None
    detail = await _detail(tool, context, arguments)
    asks = [_opened(name, patterns, detail) for name, patterns in verdict.wanted.items()]
    return await people.asked(call.id, asks, title=tool.title(arguments))


async def differs(call: ToolCall, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | None:
    """An error when people allowed this call and it would do something else by now: a file has changed meanwhile."""
    granted = context.people.granted.get(call.id) if context.people else None
    if granted is None or granted.shown == await _detail(tool, context, arguments):
        return None
    reason = "what this call would do has changed since a person allowed it; look again, and ask for what you need now"
    return ToolResult(f"Error: {reason}.", title=tool.title(arguments), is_error=True)


async def _detail(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    detail = await tool.preview(context, arguments) if isinstance(tool, Shows) else ""
    # a change of nothing has no diff
    detail = detail or json.dumps(dict(arguments), indent=1, ensure_ascii=False)
    if len(detail) > MAX_DETAIL_CHARS:
        raise ToolError("a person must allow this call, and it is too long to be shown; make several smaller ones")
    return detail


def _opened(permission: str, patterns: tuple[str, ...], detail: str) -> AskOpened:
    question = QUESTIONS.get(permission, f"May the agent use {permission}?")
    proposed = tuple(dict.fromkeys(_proposed(permission, pattern) for pattern in patterns))
    whole = all(0 < len(f"{permission}:{pattern}") <= MAX_PATTERN_CHARS and pattern for pattern in proposed)
    return AskOpened(
        ask_id="",
        permission=permission,
        patterns=patterns,
        question=question,
        detail=detail,
        always=tuple(f"{permission}:{pattern}" for pattern in proposed) if whole else (),
    )


def _proposed(permission: str, pattern: str) -> str:
    """Empty where nothing beyond the one call can be allowed.

    >>> _proposed("bash", "git log -3"), _proposed("read", ".env"), _proposed("bash_unparsed", "eval x")
    ('git log *', '*', '')
    >>> _proposed("bash", "(code) python -c 'x()'")
    "(code) python -c 'x()'"
    """
    match permission:
        case "bash":
            return _command_pattern(pattern)
        case "bash_unparsed":
            return ""
        case _:
            return pattern if permission in ITSELF else "*"


def _command_pattern(text: str) -> str:
    try:
        found = next((command for command in read(text).commands if text in (command.pattern, command.text)), None)
    except Unparsable:
        found = None
    return found.always if found else text.replace("*", "?")
