"""Sums over the events of one task: what it has used, what is to be charged, what its model last said."""

from __future__ import annotations

from dataclasses import dataclass, field

from envelope.budget import Metrics, Usage
from envelope.events import CallState, Event, TextDelta, ToolCallChanged, TurnFinished, TurnStarted

MAX_PARTIAL_CHARS = 4096  # a look for people; the session holds the whole

NOTHING = Usage()


@dataclass(slots=True)
class TaskTotals:
    """`partial_output` is the end of the text of the latest turn."""

    metrics: Metrics = field(default_factory=Metrics)
    partial_output: str = ""
    uncharged_microusd: int = 0

    def add(self, event: Event) -> None:
        """A turn's text replaces the last one's; its cost waits for `take_charge`."""
        match event:
            case TurnStarted():
                self.partial_output = ""
            case TextDelta(text=text):
                self.partial_output = (self.partial_output + text)[-MAX_PARTIAL_CHARS:]
            case TurnFinished(turn=turn, usage=usage, cost_microusd=cost):
                self.uncharged_microusd += cost
                # one that a person ended by a refusal is told of twice
                self._spend(usage, cost_microusd=cost, turns=int(turn > self.metrics.turns))
            case ToolCallChanged(state=CallState.COMPLETED | CallState.ERROR):
                self._spend(tool_calls=1)
            case _:
                pass

    def add_aside(self, usage: Usage, *, cost_microusd: int) -> None:
        """A model call that is no turn of the session."""
        self.uncharged_microusd += cost_microusd
        self._spend(usage, cost_microusd=cost_microusd)

    def take_charge(self) -> int:
        """What is to be charged now; the next call says what came after."""
        charge, self.uncharged_microusd = self.uncharged_microusd, 0
        return charge

    def _spend(self, usage: Usage = NOTHING, *, cost_microusd: int = 0, turns: int = 0, tool_calls: int = 0) -> None:
        self.metrics = Metrics(
            usage=self.metrics.usage + usage,
            cost_microusd=self.metrics.cost_microusd + cost_microusd,
            turns=self.metrics.turns + turns,
            tool_calls=self.metrics.tool_calls + tool_calls,
        )
