"""What one task said and did, in the order in which it happened: a fold over its entries, like the tree's. Pure.

Bounded, whatever a model writes: of long texts the beginning is kept, of many blocks the latest ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from envelope.events import (
    AskAnswered,
    AskOpened,
    BudgetReached,
    CallState,
    ChildEnded,
    ChildSpawned,
    Compacted,
    GateVerdict,
    MergeStep,
    MessageAdded,
    ReasoningDelta,
    Resynced,
    RetryScheduled,
    StateChanged,
    TextDelta,
    ToolCallChanged,
    ToolInputDelta,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)
from envelope.messages import TaskProgress, TaskResult

from ..gating.text import gate_name, verdict_text
from ..units import dollars, duration, tokens
from ..words import state_text
from .said import budget_reached

# About what fits on twenty screens; the session's export and the call's whole output have the rest.
MAX_TEXT_CHARS = 32_000
# What a tool was given or gave is folded on the page, with a link to the whole of it.
MAX_TOOL_CHARS = 8_000
# Of a page that is read by people and weighs 150 KB at most; earlier steps and `muster task logs` have all.
MAX_BLOCKS, MAX_CHARS = 200, 75_000


@dataclass(slots=True)
class Block:
    """`kind` says how it is shown: text, reasoning, message, tool, turn, note or warning."""

    kind: str
    head: str = ""
    text: str = ""
    state: str = ""  # of a tool call
    call_id: str = ""
    input: str = ""
    input_whole: bool = True
    whole: bool = True  # else the text's end is missing
    output_blob: str = ""
    child: str = ""
    streams: bool = False

    @property
    def chars(self) -> int:
        return len(self.head) + len(self.input) + len(self.text)

    def add(self, text: str) -> None:
        room = MAX_TEXT_CHARS - len(self.text)
        self.text += text[:room]
        self.whole = self.whole and len(text) <= room


@dataclass(slots=True)
class Transcript:
    """`blocks` by their numbers, which never change; the first ones are dropped when there are too many."""

    task_id: str
    blocks: dict[int, Block] = field(default_factory=dict[int, Block])
    count: int = 0
    attempt: int = 0
    _calls: dict[str, int] = field(default_factory=dict[str, int])
    _open: int = -1  # the text that deltas are added to
    _sizes: dict[int, int] = field(default_factory=dict[int, int])  # of the blocks, in characters
    _chars: int = 0  # of all of them

    def take(self, message: TaskProgress | TaskResult) -> set[int]:
        """The numbers of the blocks that are new or different."""
        if message.task_id != self.task_id:
            return set()
        changed = self._told(message)
        self._make_room(changed)
        return changed

    def _told(self, message: TaskProgress | TaskResult) -> set[int]:
        if isinstance(message, TaskResult):
            self._open = -1
            return set(self._ended(message))
        changed: set[int] = set()
        if message.attempt != self.attempt:
            self.attempt, self._calls, self._open = message.attempt, {}, -1
        for event in message.events:
            told = _TELL.get(type(event))
            if told is not None:
                changed.update(told(self, event))
        return changed

    def copy(self) -> Transcript:
        blocks = {number: replace(block) for number, block in self.blocks.items()}
        return replace(self, blocks=blocks, _calls=self._calls.copy(), _sizes=self._sizes.copy())

    def new(self, block: Block) -> Iterator[int]:
        number, self.count = self.count, self.count + 1
        self.blocks[number] = block
        if len(self.blocks) > MAX_BLOCKS:
            self._drop_first()
        if not block.streams:
            self._open = -1
        yield number

    def stream(self, kind: str, text: str) -> Iterator[int]:
        """Text that goes on where its kind is the last one open; else a new block. Their numbers."""
        block = self.blocks.get(self._open)
        if block is None or block.kind != kind:
            block = Block(kind, streams=True)
            yield from self.new(block)
            self._open = self.count - 1
        else:
            yield self._open
        block.add(text)

    def input(self, event: ToolInputDelta) -> Iterator[int]:
        """Arguments as the model writes them, before the call is whole; the numbers of the blocks that changed."""
        known = self._calls.get(event.call_id)
        block = self.blocks.get(known) if known is not None else None
        if block is None:
            block = Block("tool", head="…", state=CallState.PENDING, call_id=event.call_id)
            yield from self.new(block)
            self._calls[event.call_id] = known = self.count - 1
        if known is not None:
            yield known
        room = MAX_TOOL_CHARS - len(block.input)
        block.input += event.text[:room]
        block.input_whole = block.input_whole and len(event.text) <= room

    def call(self, event: ToolCallChanged) -> Iterator[int]:
        """A call's next state, in the block of its first one; the numbers of the blocks that changed."""
        known = self._calls.get(event.call_id)
        block = self.blocks.get(known) if known is not None else None
        if block is None or known is None:
            block = Block("tool", call_id=event.call_id)
            yield from self.new(block)
            self._calls[event.call_id] = self.count - 1
        else:
            yield known
        took = f" ({duration(event.ended_at_ms - event.started_at_ms)})" if event.ended_at_ms else ""
        block.head, block.state = f"{event.tool} {event.title}".strip()[:500] + took, event.state
        block.output_blob = event.output_blob or block.output_blob
        if event.input is not None:
            told = json.dumps(event.input, indent=2, ensure_ascii=False)
            block.input, block.input_whole = told[:MAX_TOOL_CHARS], len(told) <= MAX_TOOL_CHARS
        if event.output:
            block.text, block.whole = event.output[:MAX_TOOL_CHARS], len(event.output) <= MAX_TOOL_CHARS

    def _make_room(self, changed: set[int]) -> None:
        for number in changed & self.blocks.keys():
            size = self.blocks[number].chars
            self._chars += size - self._sizes.get(number, 0)
            self._sizes[number] = size
        while self._chars > MAX_CHARS:
            self._drop_first()

    def _drop_first(self) -> None:
        number = next(iter(self.blocks))
        block = self.blocks.pop(number)
        if self._calls.get(block.call_id) == number:
            del self._calls[block.call_id]
        self._chars -= self._sizes.pop(number, 0)

    def _ended(self, result: TaskResult) -> Iterator[int]:
        for error in result.errors[:5]:
            block = Block("warning", head=f"{error.code}: {error.message}"[:MAX_TEXT_CHARS])
            block.add(f"hint: {error.hint}" if error.hint else "")
            yield from self.new(block)
        if result.output.text and not self._says(result.output.text):
            block = Block("message", head="answer")
            block.add(result.output.text)
            yield from self.new(block)

    def _says(self, text: str) -> bool:
        """Most tasks end with what their model said last."""
        said = next((block.text for block in reversed(self.blocks.values()) if block.kind == "text"), "")
        return text[:MAX_TEXT_CHARS].strip() == said.strip()


def _note(say: Callable[[Any], str], kind: str = "note") -> Callable[[Transcript, Any], Iterator[int]]:
    def tell(told: Transcript, event: Any) -> Iterator[int]:
        head, _, rest = say(event).partition("\n")
        if head:
            block = Block(kind, head=head[:1000], child=getattr(event, "child_task_id", ""))
            block.add(rest)
            yield from told.new(block)

    return tell


def _turn_ended(event: TurnFinished) -> str:
    spent = f"{tokens(event.usage.total_tokens)}, {dollars(event.cost_microusd)}"
    return f"turn {event.turn} ended: {event.finish_reason}, {spent}"


def _message(told: Transcript, event: MessageAdded) -> Iterator[int]:
    block = Block("message", head=f"{event.role}{' (by Muster)' if event.synthetic else ''}")
    block.add(event.text)
    yield from told.new(block)


_TELL: dict[type[Any], Callable[[Transcript, Any], Iterator[int]]] = {
    TextDelta: lambda told, event: told.stream("text", event.text),
    ReasoningDelta: lambda told, event: told.stream("reasoning", event.text),
    ToolInputDelta: lambda told, event: told.input(event),
    ToolCallChanged: lambda told, event: told.call(event),
    MessageAdded: _message,
    TurnStarted: _note(lambda event: f"turn {event.turn}{f' · {event.model}' if event.model else ''}", "turn"),
    TurnFinished: _note(_turn_ended),
    StateChanged: _note(lambda event: state_text(event.state, event.reason, event.worker)),
    ChildSpawned: _note(lambda event: f"started {event.agent} {event.title}"),
    ChildEnded: _note(lambda event: f"a task it started: {event.state}{f', {event.error}' if event.error else ''}"),
    AskOpened: _note(lambda event: f"asks: {event.question or event.permission}\n{event.detail}"),
    AskAnswered: _note(
        lambda event: f"answered: {event.answer}{f' by {event.by}' if event.by else ''}\n{event.comment}"
    ),
    GateVerdict: _note(lambda event: f"gate {gate_name(event)}: {verdict_text(event)}\n{event.detail}"),
    MergeStep: _note(lambda event: f"merge: {event.key} {event.outcome}"),
    RetryScheduled: _note(lambda event: f"tries again in {duration(event.wait_ms)}: {event.reason}"),
    Compacted: _note(lambda event: f"compacted: {tokens(event.tokens_before)} to {tokens(event.tokens_after)}"),
    BudgetReached: _note(budget_reached, "warning"),
    WarningRaised: _note(lambda event: f"warning: {event.message}\n{event.hint}", "warning"),
    Resynced: _note(lambda event: "earlier events are no longer kept"),
}
