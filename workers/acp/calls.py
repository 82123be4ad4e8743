"""One call of a program at a time, as a turn's call of a model: run, denied, or asked for; who asks waits for the word.

A task that asks is parked as a rule, and its sandbox given back. The program would be lost with it, and its work: here
the task holds both while people think, and so for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envelope.events import ToolCallChanged

from ..agent.hearing import REFUSED_HINT
from ..agent.means import Loop
from ..agent.verdicts import Granted, Late, Refused, Waits, answered_events, judge
from ..agent.verdicts import Told as SaidInstead
from ..clock import now_ms
from ..delivery.holding import LONGEST_MS, LOOK_S, Holding
from ..llm.base import ToolCall
from ..permissions.guard import Guard
from ..tools.base import Delegated, Tool, ToolResult
from ..tools.dispatch import OnChange, ended_event, run_calls
from ..tools.errors import ToolError
from ..tools.people import Asked
from .keeper import Keeper
from .told import MAX_CALLS, OVER, Told

NO_MORE = "this task gets no more calls"


class RefusedByPerson(Exception):
    """A plain no, which ends the task."""

    hint = REFUSED_HINT


class Calls:
    """What a program has us do within a call that it has told of is that call, and counts once (see `Told.part_of`)."""

    def __init__(self, loop: Loop, guard: Guard, holding: Holding, keeper: Keeper, told: Told) -> None:
        self._loop, self._guard, self._holding = loop, guard, holding
        self._keeper, self._told = keeper, told
        self._count = 0
        self._under_way: set[str] = set()

    async def ask(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """May the program do this by itself? Nobody sees it as a call. Raises as `run` does."""
        return await self._answer(self._call(tool, arguments), tool, lambda change: None)

    async def run(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """A call, or a part of one. `ToolError` when there may be no more of them, `RefusedByPerson` when one of them
        says no to it."""
        part_of = self._told.part_of(tool.name)
        self._require_budget(beside=0 if part_of is not None else 1)
        call = self._call(tool, arguments)
        if part_of is not None:
            return await self._answer(call, tool, lambda change: self._told.did(part_of, change))
        self._under_way.add(call.id)
        try:
            return await self._answer(call, tool, self._show)
        finally:
            self._under_way.discard(call.id)

    def _require_budget(self, *, beside: int) -> None:
        """For what is under way, and so many more."""
        left = self._keeper.calls_left
        if left is not None and len(self._under_way) + self._told.under_way + beside > left:
            raise ToolError(NO_MORE)

    def _call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolCall:
        if self._count >= MAX_CALLS:
            raise ToolError(NO_MORE)
        self._count += 1
        return ToolCall(id=f"engine-{self._count}", name=tool.name, arguments="", input=dict(arguments))

    def _show(self, change: ToolCallChanged) -> None:
        self._loop.emit(change)
        if change.state in OVER:
            self._under_way.discard(change.call_id)
            self._keeper.count(change)

    async def _answer(self, call: ToolCall, tool: Tool, on_change: OnChange) -> ToolResult:
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
            at_ms = now_ms()
            on_change(ended_event(call, shown, at_ms, at_ms))
            return shown
        people.granted[call.id] = asked
        try:
            return await self._run(call, tool, on_change)
        finally:
            people.granted.pop(call.id, None)

    async def _word(self, asked: Asked) -> str | ToolResult:
        """What a person has allowed, as they were shown it; or what stands in the place of the call's result."""
        people = self._loop.context.people
        assert people is not None  # see `_answered`
        while True:
            struck = people.struck
            said = await people.said(asked.asks)
            if people.struck != struck:
                await self._holding.again()  # to the queue an answer was there
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
                case SaidInstead(result) | Late(result):
                    return result
                case Refused(ask):
                    raise RefusedByPerson(f"a person refused: {ask.permission} {', '.join(ask.patterns)}".strip())
