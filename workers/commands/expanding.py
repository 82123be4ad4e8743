"""What a command asks for besides words, fetched with the tools of the session and by its rules: shell output, files,
agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence

from sandbox.errors import PathError

from ..agent.means import Loop
from ..llm.base import ToolCall
from ..project.framing import framed
from ..tools.base import ToolResult
from ..tools.paths import absolute
from ..tools.people import Asked
from .template import inlined, lines_of, mentions, shell_commands, told_apart

NOT_ASKED = ToolResult(
    "Error: it needs a person's approval, and what a prompt brings along is not asked about.", is_error=True
)
MAX_SHELL_COMMANDS = 20
MAX_FILES = 20
MAX_PART_CHARS = 16_000  # of one output or file: 4,000 tokens
MAX_PROMPT_CHARS = 200_000  # fits an event, which watchers see


async def expanded(template: str, arguments: str, loop: Loop, *, label: str) -> str:
    """The prompt that the command makes. `label` tells its calls from those of others in the same session."""
    # what a command prints mentions nobody: the mentions are those of the text without outputs
    named = mentions(inlined(template, arguments, []))
    shell = shell_commands(template, arguments)
    outputs, attached = await asyncio.gather(_outputs(shell, loop, label), _attached(named, loop, label))
    return cut("\n\n".join([inlined(template, arguments, outputs), *attached]), MAX_PROMPT_CHARS)


async def mentioned(names: Sequence[str], loop: Loop, *, label: str) -> str:
    """What belongs below a person's words that mention these: files, and subagents that are to be asked."""
    return cut("\n\n".join(await _attached(names, loop, label)), MAX_PROMPT_CHARS)


def subagents(loop: Loop) -> Collection[str]:
    """Those that this session may start."""
    return loop.context.children.catalogue() if "task" in loop.tools else ()


async def _outputs(commands: Sequence[str], loop: Loop, label: str) -> list[str]:
    """In the place of each command what it printed, or why it did not run."""
    calls = [_call(f"{label}-shell-{number}", "bash", command=text) for number, text in enumerate(commands)]
    results = await _answers(calls[:MAX_SHELL_COMMANDS], loop)
    told = [
        f"(not run: {_reason(result)})" if result.is_error else cut(result.content, MAX_PART_CHARS)
        for result in results
    ]
    return told + ["(not run: the command has too many of these)" for _ in calls[MAX_SHELL_COMMANDS:]]


async def _attached(names: Sequence[str], loop: Loop, label: str) -> list[str]:
    """What is added below the prompt: the files that it mentions, and whom it wants to be asked."""
    there = await _files(names, loop)
    found = told_apart(names, is_file=there.__contains__, agents=subagents(loop))
    calls = [_call(f"{label}-file-{number}", "read", **there[name]) for number, name in enumerate(found.files)]
    results = await _answers(calls[:MAX_FILES], loop)
    files = [
        f"(@{name} is not attached: {_reason(result)})"
        if result.is_error
        else framed("attached-file", name, cut(result.content, MAX_PART_CHARS))
        for name, result in zip(found.files, results, strict=False)
    ]
    left_out = [f"(@{name} is not attached: too many files are mentioned)" for name in found.files[MAX_FILES:]]
    hints = [f"(@{name} is a subagent: call `task` with subagent_type {name!r} for this.)" for name in found.agents]
    return [*files, *left_out, *hints]


async def _files(names: Sequence[str], loop: Loop) -> dict[str, dict[str, str | int]]:
    """How those that are files, or lines of one, are read. A file may be called as if it were lines of another."""
    sandbox = await loop.context.sandbox()

    async def is_there(path: str) -> bool:
        try:
            await sandbox.stat(absolute(path))
        except PathError:
            return False
        return True

    async def read_by(name: str) -> dict[str, str | int]:
        if await is_there(name):
            return {"filePath": name}
        if (part := lines_of(name)) and await is_there(part[0]):
            path, first, last = part
            return {"filePath": path, "offset": first, "limit": last - first + 1}
        return {}

    found = await asyncio.gather(*map(read_by, names))
    return {name: arguments for name, arguments in zip(names, found, strict=True) if arguments}


async def _answers(calls: Sequence[ToolCall], loop: Loop) -> list[ToolResult]:
    """As if a model had called: the same tools, judged by the same scope and rules, seen by the same watchers."""
    results = await loop.run_calls(calls, loop.emit) if calls else []
    told = (NOT_ASKED if isinstance(result, Asked) else result for result in results)
    return [result for result in told if isinstance(result, ToolResult)]


def _reason(result: ToolResult) -> str:
    return cut(result.content.removeprefix("Error: "), MAX_PART_CHARS)


def _call(call_id: str, tool: str, **arguments: str | int) -> ToolCall:
    return ToolCall(id=call_id, name=tool, arguments=json.dumps(arguments), input=dict(arguments))


def cut(text: str, max_chars: int) -> str:
    more = len(text) - max_chars
    return text if more <= 0 else f"{text[:max_chars]}\n({more} more characters were cut)"
