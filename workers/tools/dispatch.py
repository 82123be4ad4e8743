"""Running the tool calls of one turn: together where that is safe, each answered in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from envelope.events import CallState, ToolCallChanged
from envelope.redaction import redact_head
from repo.errors import RepoError
from sandbox.errors import SandboxError, SandboxLost

from ..clock import now_ms
from ..failures import OUTAGES
from ..llm.base import ToolCall
from ..permissions.guard import Guard
from .base import Delegated, Target, Tool, ToolContext, ToolResult
from .errors import ToolError
from .paths import absolute
from .schema import first_fault
from .spill import OUTPUT_BLOB, with_spilled

# What people see of an output in the event; the model gets the whole.
SHOWN_CHARS = 400
# Of each argument; enough for any path, command or pattern. The session holds the whole call.
SHOWN_ARGUMENT_CHARS = 4096
SHOWN_ARGUMENT_ITEMS = 100

OnChange = Callable[[ToolCallChanged], None]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that may run."""

    call: ToolCall
    tool: Tool
    input: Mapping[str, object]
    targets: Sequence[Target]


async def run_calls(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], context: ToolContext, guard: Guard, on_change: OnChange
) -> list[ToolResult | Delegated]:
    """One result for each call, in their order; of a call that started a subagent, who has it.

    What a model can mend (an unknown tool, bad arguments, a denied target, a tool's failure) is an error result. A
    lost sandbox ends the task, and an engine that is away ends the attempt: what says so is raised after the other
    calls were stopped.
    """
    hooked = [await context.hooks.before(call) for call in calls]
    prepared = [
        ToolResult(call, is_error=True) if isinstance(call, str) else _prepare(call, tools, guard) for call in hooked
    ]
    locks = _locks([ready for ready in prepared if isinstance(ready, _Ready)])
    running = [
        asyncio.create_task(_answer(call, item, context, locks, on_change))
        for call, item in zip(calls, prepared, strict=True)
    ]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _prepare(call: ToolCall, tools: Mapping[str, Tool], guard: Guard) -> _Ready | ToolResult:
    tool = tools.get(call.name) or tools.get(call.name.lower())
    if tool is None:
        return _mistake(f"there is no tool {call.name!r}; there are: {', '.join(sorted(tools))}")
    if call.input is None:
        return _mistake(
            f"the arguments of {tool.name} are not a JSON object: {call.arguments[:200]!r}; write them again"
        )
    if fault := first_fault(tool.parameters, call.input):
        return _mistake(f"the arguments of {tool.name} are wrong: {fault}; write them again")
    targets = tool.targets(call.input)
    if denied := guard.check(targets):
        return ToolResult(denied.reason, title=tool.title(call.input), is_error=True)
    return _Ready(call, tool, call.input, targets)


def _mistake(reason: str) -> ToolResult:
    return ToolResult(f"Error: {reason}.", is_error=True)


def _locks(ready: Sequence[_Ready]) -> dict[str, asyncio.Lock]:
    """A lock for each file that some call of this turn writes; who else touches it waits, in the order of the calls."""
    written = {target.pattern for item in ready for target in item.targets if target.permission == "edit"}
    return {path: asyncio.Lock() for path in sorted(written)}


@asynccontextmanager
async def _alone(targets: Sequence[Target], locks: Mapping[str, asyncio.Lock]) -> AsyncGenerator[None]:
    async with AsyncExitStack() as held:
        for path in sorted({target.pattern for target in targets} & locks.keys()):
            await held.enter_async_context(locks[path])
        yield


async def _answer(
    call: ToolCall,
    item: _Ready | ToolResult,
    context: ToolContext,
    locks: Mapping[str, asyncio.Lock],
    on_change: OnChange,
) -> ToolResult | Delegated:
    if isinstance(item, ToolResult):
        at_ms = now_ms()
        on_change(ended_event(call, item, at_ms, at_ms))
        return item
    async with _alone(item.targets, locks):
        started_ms, title = now_ms(), item.tool.title(item.input)
        on_change(
            ToolCallChanged(
                call_id=call.id,
                tool=item.tool.name,
                state=CallState.RUNNING,
                title=title,
                input=_shown(dict(item.input)),
                started_at_ms=started_ms,
            )
        )
        result = await _run(item, context)
        if isinstance(result, ToolResult):
            result = with_spilled(context, call.id, result)
            on_change(ended_event(call, result, started_ms, now_ms(), title=title))
        return result


def _shown(value: Any) -> Any:
    """Arguments as people see them: an event is at most 1 MiB, and a file that is written may be longer."""
    match value:
        case str() if len(value) > SHOWN_ARGUMENT_CHARS:
            return f"{value[:SHOWN_ARGUMENT_CHARS]}… ({len(value) - SHOWN_ARGUMENT_CHARS} more characters)"
        case dict():
            return {key: _shown(inner) for key, inner in cast(dict[str, Any], value).items()}
        case list():
            return [_shown(inner) for inner in cast(list[Any], value)[:SHOWN_ARGUMENT_ITEMS]]
        case _:
            return value


async def _run(item: _Ready, context: ToolContext) -> ToolResult | Delegated:
    try:
        result = await item.tool.run(context, item.call.id, item.input)
        result = await _looked_after(item, result, context)
        return await context.hooks.after(item.call, result) if isinstance(result, ToolResult) else result
    except (SandboxLost, *OUTAGES):
        raise
    except (ToolError, SandboxError, RepoError) as e:
        return ToolResult(f"Error: {e}", title=item.tool.title(item.input), is_error=True)


async def _looked_after(item: _Ready, result: ToolResult | Delegated, context: ToolContext) -> ToolResult | Delegated:
    """The result, with what was found in the files that the call has written."""
    written = [absolute(target.pattern) for target in item.targets if target.permission == "edit"]
    if not written or not isinstance(result, ToolResult) or result.is_error:
        return result
    found = await context.after_write(context, written)
    return replace(result, content=f"{result.content}\n{found}") if found else result


def ended_event(
    call: ToolCall, result: ToolResult, started_ms: int, ended_ms: int, *, title: str = ""
) -> ToolCallChanged:
    return ToolCallChanged(
        call_id=call.id,
        tool=call.name,
        state=CallState.ERROR if result.is_error else CallState.COMPLETED,
        title=result.title or title,
        output=redact_head(result.content, SHOWN_CHARS),
        output_blob=result.metadata.get(OUTPUT_BLOB, ""),
        started_at_ms=started_ms,
        ended_at_ms=ended_ms,
    )
