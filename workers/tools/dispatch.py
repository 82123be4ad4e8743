"""Running the tool calls of one turn: together where that is safe, each answered in its place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from envelope.events import CallState, ToolCallChanged
from envelope.redaction import redact_head
from repo.errors import RepoError
from repo.fairness import beside
from sandbox.errors import SandboxError, SandboxLost

from ..clock import now_ms
from ..delivery.failures import OUTAGES
from ..llm.base import ToolCall
from ..permissions.guard import PLAN_FILE, Ask, Denied, Guard, Verdict
from .asking import asked_first, differs, suspected
from .base import CallResult, Target, Tool, ToolContext, ToolResult
from .bash import in_working_directory
from .errors import ToolError
from .links import led_astray
from .paths import absolute
from .people import Asked, People
from .schema import find_fault
from .spill import OUTPUT_BLOB, with_spilled
from .traced import tell_result, tool_span

# What people see of an output in the event; the model gets the whole.
SHOWN_CHARS = 400
# Of each argument; enough for any path, command or pattern. The session holds the whole call.
SHOWN_ARGUMENT_CHARS = 4096
SHOWN_ARGUMENT_ITEMS = 100

# A path, an address, a search; the kernel takes no longer paths. Each of 200 rules looks through it. Commands have a
# bound of their own.
MAX_TARGET_CHARS = 4096
MAX_TARGETS = 1000

CANCELLED = ToolResult(
    "Cancelled: the task was stopped before this call had ended. It may have taken effect; look before you repeat it.",
    is_error=True,
)
# Of a call's arguments: shorter ones are judged in milliseconds. Of the longest command lines one takes half a second,
# and a reply may have hundreds: those are judged beside the loop.
QUICK_CHARS = 500
WRITING = ("edit", PLAN_FILE)

_CAMEL = re.compile(r"_([a-z])")

OnChange = Callable[[ToolCallChanged], None]
T = TypeVar("T")


class CutOff(asyncio.CancelledError):
    """The calls of a turn were stopped from outside. `results`: one for each, of those that had ended and of the
    rest."""

    def __init__(self, results: Sequence[ToolResult]) -> None:
        super().__init__()
        self.results = results


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that may run; `asks`: as soon as people have allowed it."""

    call: ToolCall
    tool: Tool
    input: Mapping[str, object]
    targets: Sequence[Target]
    asks: bool = False


async def run_calls(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], context: ToolContext, guard: Guard, on_change: OnChange
) -> list[CallResult]:
    """One result for each call, in their order; of a call that started a subagent or needs to be allowed, who has it.

    What a model can mend (an unknown tool, bad arguments, a denied target, a tool's failure) is an error result. A
    lost sandbox ends the task, and an engine that is away ends the attempt: what says so is raised after the other
    calls were stopped. Who is cancelled raises `CutOff`.
    """
    # by its real name: a hook that looks at calls of `bash` must see one of `Bash`, which runs the same
    hooked = [await context.hooks.before(_named(call, tools)) for call in calls]
    prepared: list[_Ready | ToolResult] = []
    for call in hooked:
        is_refused = isinstance(call, str)
        prepared.append(ToolResult(call, is_error=True) if is_refused else await _prepare(call, tools, context, guard))
        await asyncio.sleep(0)  # a reply may have many calls, and each takes its time: tasks of others go on between
    locks = _locks([ready for ready in prepared if isinstance(ready, _Ready)])
    running = [
        asyncio.create_task(_answer(call, item, context, guard, locks, on_change))
        for call, item in zip(calls, prepared, strict=True)
    ]
    try:
        return list(await asyncio.gather(*running))
    except asyncio.CancelledError:
        await _stop(running)
        ended = [_as_it_ended(*each, context, on_change) for each in zip(calls, running, strict=True)]
        raise CutOff(ended) from None
    finally:
        await _stop(running)


async def _stop(running: Sequence[asyncio.Task[CallResult]]) -> None:
    unfinished = [task for task in running if not task.done()]
    for task in unfinished:
        task.cancel()
    if unfinished:  # to wait for nothing takes a turn of the event loop, too
        await asyncio.gather(*unfinished, return_exceptions=True)


def _as_it_ended(
    call: ToolCall, ran: asyncio.Task[CallResult], context: ToolContext, on_change: OnChange
) -> ToolResult:
    """What a call had come to when it was stopped; what waited for others is stopped, too."""
    result = None if ran.cancelled() or ran.exception() else ran.result()
    if isinstance(result, ToolResult):
        return result
    said = context.cut_short.pop(call.id, "")
    stopped = replace(CANCELLED, content=f"{CANCELLED.content}\nIts output until then:\n{said}") if said else CANCELLED
    return _refused(call, stopped, on_change)


async def _prepare(
    call: ToolCall, tools: Mapping[str, Tool], context: ToolContext, guard: Guard
) -> _Ready | ToolResult:
    tool = tools.get(call.name)
    if tool is None:
        why = context.absent.get(call.name.lower())
        return _mistake(why or f"there is no tool {call.name!r}; there are: {', '.join(sorted(tools))}")
    if call.input is None:
        return _mistake(
            f"the arguments of {tool.name} are not a JSON object: {call.arguments[:200]!r}; write them again"
        )
    if fault := await find_fault(tool.parameters, call.input, context.tenant):
        return _mistake(f"the arguments of {tool.name} are wrong: {fault}; write them again")
    people, arguments = context.people, in_working_directory(tool.name, call.input, context)
    judge = partial(_judged, call, tool, arguments, people, guard)
    targets, verdict = judge() if len(call.arguments) <= QUICK_CHARS else await beside.run(context.tenant, judge)
    if isinstance(verdict, ToolResult):
        return verdict
    if isinstance(verdict, Denied):
        return ToolResult(verdict.reason, title=tool.title(call.input), is_error=True)
    granted = people.granted.get(call.id) if people else None
    asks = isinstance(verdict, Ask) and not (granted and granted.covers(verdict.wanted))
    return _Ready(call, tool, arguments, targets, asks)


def _judged(
    call: ToolCall, tool: Tool, arguments: Mapping[str, Any], people: People | None, guard: Guard
) -> tuple[list[Target], Verdict | ToolResult | None]:
    try:
        targets = [*suspected(call, tool, people), *tool.targets(arguments)]
    except ToolError as e:
        return [], _mistake(str(e))
    said = [target for target in targets if not target.permission.startswith("bash")]
    if len(said) > MAX_TARGETS or any(len(target.pattern) > MAX_TARGET_CHARS for target in said):
        bounds = f"{MAX_TARGETS} files, and names of {MAX_TARGET_CHARS} characters"
        return [], _mistake(f"{tool.name} takes at most {bounds} in one call; make several smaller ones")
    return targets, guard.judge(targets, people.approved) if people else guard.check(targets)


def _named(call: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """Some models write a tool's name with capitals, and its arguments as other tools call them: `file_path`."""
    small = call.name.lower()
    if call.name not in tools and small in tools:
        call = call.model_copy(update={"name": small})
    tool = tools.get(call.name)
    if tool is None or call.input is None or tool.parameters.get("additionalProperties") is not False:
        return call
    known = tool.parameters["properties"].keys()
    meant = {key: _CAMEL.sub(lambda found: found[1].upper(), key) for key in call.input.keys() - known}
    meant = {key: name for key, name in meant.items() if name in known and name not in call.input}
    if not meant:
        return call
    return call.model_copy(update={"input": {meant.get(key, key): value for key, value in call.input.items()}})


def _mistake(reason: str) -> ToolResult:
    return ToolResult(f"Error: {reason}.", is_error=True)


def _locks(ready: Sequence[_Ready]) -> dict[str, asyncio.Lock]:
    """A lock for each file that some call of this turn writes; who else touches it waits, in the order of the calls."""
    written = {target.pattern for item in ready for target in item.targets if target.permission in WRITING}
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
    guard: Guard,
    locks: Mapping[str, asyncio.Lock],
    on_change: OnChange,
) -> CallResult:
    if isinstance(item, ToolResult):
        return _refused(call, item, on_change)
    async with _alone(item.targets, locks):
        before = await _before(item, context, guard)
        if before is not None:
            return _refused(call, before, on_change) if isinstance(before, ToolResult) else before
        started_ms, title = now_ms(), item.tool.title(item.input)
        on_change(
            ToolCallChanged(
                call_id=call.id,
                tool=item.tool.name,
                state=CallState.RUNNING,
                title=title,
                input=shown(dict(item.input)),
                started_at_ms=started_ms,
            )
        )
        with tool_span(item.tool.name, call.id, item.input) as opened:
            result = await _run(item, context)
            tell_result(opened, result)
        if isinstance(result, ToolResult):
            result = with_spilled(context, call.id, result)
            on_change(ended_event(call, result, started_ms, now_ms(), title=title))
        return result


def _refused(call: ToolCall, result: ToolResult, on_change: OnChange) -> ToolResult:
    at_ms = now_ms()
    on_change(ended_event(call, result, at_ms, at_ms))
    return result


async def _before(item: _Ready, context: ToolContext, guard: Guard) -> Asked | ToolResult | None:
    """What keeps the call from running now: a link leads it elsewhere, people are asked, or what they allowed is no
    longer what it would do."""
    if (astray := await _told(item, led_astray(item.targets, context, guard))) is not None:
        return replace(astray, title=item.tool.title(item.input))
    if item.asks:
        return await _told(item, asked_first(item.call, item.tool, item.input, item.targets, context, guard))
    return await _told(item, differs(item.call, item.tool, item.input, context))


def shown(value: Any) -> Any:
    """Arguments as people see them: an event is at most 1 MiB, and a file that is written may be longer."""
    match value:
        case str() if len(value) > SHOWN_ARGUMENT_CHARS:
            return f"{value[:SHOWN_ARGUMENT_CHARS]}… ({len(value) - SHOWN_ARGUMENT_CHARS} more characters)"
        case dict():
            return {key: shown(inner) for key, inner in cast(dict[str, Any], value).items()}
        case list():
            return [shown(inner) for inner in cast(list[Any], value)[:SHOWN_ARGUMENT_ITEMS]]
        case _:
            return value


async def _run(item: _Ready, context: ToolContext) -> CallResult:
    return await _told(item, _done(item, context))


async def _done(item: _Ready, context: ToolContext) -> CallResult:
    result = await item.tool.run(context, item.call.id, item.input)
    if not isinstance(result, ToolResult):
        return result
    return await context.hooks.after(item.call, await _looked_after(item, result, context))


async def _told(item: _Ready, work: Awaitable[T]) -> T | ToolResult:
    """What a tool could not do, as a result for the model."""
    try:
        return await work
    except (SandboxLost, *OUTAGES):
        raise
    except (ToolError, SandboxError, RepoError) as e:
        return ToolResult(f"Error: {e}", title=item.tool.title(item.input), is_error=True)


async def _looked_after(item: _Ready, result: ToolResult, context: ToolContext) -> ToolResult:
    """The result, with what was found in the files that the call has written."""
    written = [absolute(target.pattern) for target in item.targets if target.permission == "edit"]
    if not written or result.is_error:
        return result
    found = await context.after_write(context, written)
    return replace(result, content=f"{result.content}\n{found}") if found else result


def ended_event(
    call: ToolCall, result: ToolResult, started_ms: int, ended_ms: int, *, title: str = ""
) -> ToolCallChanged:
    """What people see of a call: its head without secrets; the whole is in a blob, when there is more."""
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
