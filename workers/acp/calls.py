"""One call of a program at a time, as a turn's call of a model: run, denied, or asked for; who asks waits for the word.

A task that asks is parked as a rule, and its sandbox given back. The program would be lost with it, and its work: here
the task holds both while people think, and so for a bounded time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..agent.hearing import REFUSED_HINT
from ..agent.means import Loop
from ..agent.verdicts import Granted, Late, Refused, Told, Waits, answered_events, judge
from ..llm.base import ToolCall
from ..permissions.guard import Guard
from ..tools.base import Delegated, Tool, ToolResult
from ..tools.dispatch import OnChange, run_calls
from ..tools.people import Asked

# As long as a person takes who was told at once; a sandbox is held for it.
LONGEST_ASK_MS = 15 * 60_000
LOOK_S = 0.5  # an answer is a call of the queue, and this is nothing to a person
DENIED = ToolResult("permission denied", is_error=True)


class RefusedByPerson(Exception):
    """A plain no, which ends the task."""

    hint = REFUSED_HINT


class Calls:
    def __init__(self, loop: Loop, guard: Guard) -> None:
        self._loop, self._guard = loop, guard
        self._numbers = itertools.count(1)
        self.waiting = 0  # calls that people think about

    async def run(self, tool: Tool, arguments: Mapping[str, Any], *, shows: bool = True) -> ToolResult:
        """`shows`: people see it as a call of its own. `RefusedByPerson` when one of them says no to it."""
        call = ToolCall(id=f"engine-{next(self._numbers)}", name=tool.name, arguments="", input=dict(arguments))
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
        until_ms = min(asked.until_ms, await people.now_ms() + LONGEST_ASK_MS)
        asks = tuple(ask.model_copy(update={"until_ms": until_ms, "held": True}) for ask in asked.asks)
        asked = replace(asked, asks=asks, until_ms=until_ms)
        for ask in asks:
            self._loop.emit(ask)
        self.waiting += 1
        try:
            shown = await self._word(asked)
        finally:
            self.waiting -= 1
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
