"""One call of a program at a time, as a turn's call of a model: run, denied, or asked for; who asks waits for the word.

A task that asks is parked as a rule, and its sandbox given back. The program would be lost with it, and its work: here
the task holds both while people think, and so for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..agent.hearing import REFUSED_HINT
from ..agent.means import Loop
from ..agent.verdicts import Granted, Late, Refused, Told, Waits, answered_events, judge
from ..delivery.holding import LONGEST_MS, LOOK_S, Holding
from ..llm.base import ToolCall
from ..permissions.guard import Guard
from ..tools.base import Delegated, Tool, ToolResult
from ..tools.dispatch import OnChange, run_calls
from ..tools.errors import ToolError
from ..tools.people import Asked

# In a task. The busiest program makes a hundredth of them; each is seen by people, and told to the queue.
MAX_CALLS = 10_000


class RefusedByPerson(Exception):
    """A plain no, which ends the task."""

    hint = REFUSED_HINT


class Calls:
    """`left`: how many the task's budget allows, beside questions; None: as many as any task may make."""

    def __init__(self, loop: Loop, guard: Guard, holding: Holding, left: int | None) -> None:
        self._loop, self._guard, self._holding = loop, guard, holding
        self._left = MAX_CALLS if left is None else left
        self._count = 0

    async def run(self, tool: Tool, arguments: Mapping[str, Any], *, shows: bool = True) -> ToolResult:
        """`shows`: people see it as a call of its own. `RefusedByPerson` when one of them says no to it."""
        if self._count >= MAX_CALLS or (shows and self._left <= 0):
            raise ToolError("this task gets no more calls")
        self._count += 1
        self._left -= shows
        call = ToolCall(id=f"engine-{self._count}", name=tool.name, arguments="", input=dict(arguments))
        on_change: OnChange = self._loop.emit if shows else lambda change: None
        result = await self._run(call, tool, on_change)
        while isinstance(result, Asked):
            result = await self._answered(call, tool, result, on_change)
        return result

    async def _run(self, call: ToolCall, tool: Tool, on_change: OnChange) -> ToolResult | Asked:
        [result] = await run_calls([call], {tool.name: tool}, self._loop.context, self._guard, on_change)
        if isinstance(result, Delegated):
            raise AssertionError("no tool of these starts a subagent")
        return result

    async def _answered(self, call: ToolCall, tool: Tool, asked: Asked, on_change: OnChange) -> ToolResult | Asked:
        people = self._loop.context.people
        if people is None:
            raise AssertionError("only where people can be asked does a call ask")
        until_ms = min(asked.until_ms, await people.now_ms() + LONGEST_MS)
        asks = tuple(ask.model_copy(update={"until_ms": until_ms}) for ask in asked.asks)
        asked = replace(asked, asks=asks, until_ms=until_ms)
        for ask in asks:
            self._loop.emit(ask)
        async with self._holding.waiting_for(ask.ask_id for ask in asks):
            shown = await self._word(asked)
        if isinstance(shown, ToolResult):
            return shown
        people.granted[call.id] = shown
        try:
            return await self._run(call, tool, on_change)
        finally:
            people.granted.pop(call.id, None)

    async def _word(self, asked: Asked) -> str | ToolResult:
        """What a person has allowed, as they were shown it; or what stands in the place of the call's result."""
        people = self._loop.context.people
        assert people is not None  # see `_answered`
        while True:
            said = await people.said()
            people.approve(
                grant
                for ask in asked.asks
                if ask.ask_id in said and said[ask.ask_id].reply.choice == "always"
                for grant in ask.always
            )
            verdict = judge(asked, said, people.approved, now_ms=await people.now_ms())
            if isinstance(verdict, Waits):
                await asyncio.sleep(LOOK_S)
                continue
            if isinstance(verdict, Late) and await people.close(verdict.asks):
                continue
            for event in answered_events(asked, said):
                self._loop.emit(event)
            match verdict:
                case Granted(shown):
                    return shown
                case Told(result) | Late(result):
                    return result
                case Refused(ask):
                    raise RefusedByPerson(f"a person refused: {ask.permission} {', '.join(ask.patterns)}".strip())
