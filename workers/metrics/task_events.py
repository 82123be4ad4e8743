"""What the events of a task say for the metrics: turns, tokens, tools, and how long people take to answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from envelope.budget import MICROUSD_PER_USD
from envelope.events import (
    AskAnswered,
    AskOpened,
    CallState,
    Event,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)
from transport.metrics.shown import Shown
from transport.metrics.table import OTHER

from ..llm.arguments import ARGUMENTS_REPAIRED

MAX_OPEN_ASKS = 1000


@dataclass(slots=True)
class Asks:
    """Since when people are asked, by ask, over all attempts of this process: a task that waits comes back to it."""

    opened: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])

    def add(self, ask: AskOpened) -> None:
        """Told again by a later attempt, it is no newer."""
        self.opened.setdefault(ask.ask_id, (time.monotonic(), "question" if ask.questions else ask.permission))
        if len(self.opened) > MAX_OPEN_ASKS:
            del self.opened[next(iter(self.opened))]


@dataclass(slots=True)
class TaskEvents:
    """One attempt's."""

    shown: Shown
    agent: str
    trace_id: str
    asks: Asks
    model: str = OTHER
    running: set[str] = field(default_factory=set[str])  # calls that have begun
    turn: int = 0

    def observe(self, event: Event) -> None:
        """Count what a task tells of its turns, calls and asks."""
        match event:
            case TurnStarted(model=name):
                self.model = name
            case TurnFinished():
                self._count_turn(event)
            case ToolCallChanged(state=CallState.RUNNING):
                self.running.add(event.call_id)
            case ToolCallChanged(state=CallState.COMPLETED | CallState.ERROR):
                self._count_call(event)
            case WarningRaised(code=code) if code == ARGUMENTS_REPAIRED:
                self.shown.add("llm_arguments_repaired_total", self.model)
            case AskOpened():
                self.asks.add(event)
            case AskAnswered():
                self._count_answer(event)
            case _:
                pass

    def _count_turn(self, turn: TurnFinished) -> None:
        usage = turn.usage
        kinds = {
            "input": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
            "output": usage.output_tokens - usage.reasoning_tokens,
            "cache_read": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, tokens in kinds.items():
            self.shown.add("llm_tokens_total", self.model, kind, by=max(0, tokens))
        self.shown.add("llm_cost_usd_total", self.model, by=turn.cost_microusd / MICROUSD_PER_USD)
        if turn.turn > self.turn:  # one that a person ended by a refusal is told of twice
            self.turn = turn.turn
            self.shown.add("turns_total", self.agent)

    def _count_call(self, call: ToolCallChanged) -> None:
        self.shown.add("tool_calls_total", call.tool, call.state)
        if call.call_id in self.running:  # else it was refused before it began
            self.running.discard(call.call_id)
            took_s = max(0, call.ended_at_ms - call.started_at_ms) / 1000
            self.shown.observe("tool_seconds", call.tool, value=took_s, trace_id=self.trace_id)

    def _count_answer(self, answer: AskAnswered) -> None:
        opened_s, kind = self.asks.opened.pop(answer.ask_id, (None, ""))
        if opened_s is not None and answer.by:  # else the clock has said no
            waited_s = time.monotonic() - opened_s
            self.shown.observe("approval_wait_seconds", kind, value=waited_s, trace_id=self.trace_id)
