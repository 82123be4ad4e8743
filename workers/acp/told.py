"""What a program tells of its work, as the events that people see of any agent. Nothing of it is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envelope.events import (
    CallState,
    Event,
    MessageAdded,
    ReasoningDelta,
    TextDelta,
    Todo,
    TodoUpdated,
    ToolCallChanged,
)
from envelope.redaction import redact_head

from ..clock import now_ms
from ..project.framing import shortened
from ..tools.dispatch import SHOWN_CHARS, shown

# All text of a task. The longest answers that models give are a hundredth of it.
MAX_TEXT_CHARS = 4 * 1024 * 1024
MAX_CALLS = 10_000  # a hundred times those of a busy program; each is seen by people, and told to the queue
MAX_UPDATES = 100_000  # beside text, which is sent in large pieces however it comes
MAX_TODOS = 100
MAX_TODO_CHARS = 500
MAX_TITLE_CHARS = 200
MAX_ID_CHARS = 200
STATES = {
    "pending": CallState.PENDING,
    "in_progress": CallState.RUNNING,
    "completed": CallState.COMPLETED,
    "failed": CallState.ERROR,
}
OVER = (CallState.COMPLETED, CallState.ERROR)
NEVER_ENDED = "the agent's program did not tell how this call ended"
# The kinds of the protocol, by the names of our tools where we have one that does the same.
TOOLS = {"execute": "bash", "search": "grep", "fetch": "webfetch"}
# What it may have us do for a call of a kind. One that does not say its kind may be any.
PARTS = {
    "read": ("read", "other"),
    "write": ("edit", "delete", "move", "other"),
    "bash": ("bash", "other"),
}


class Told:
    """`count` takes a call that has ended, `on_flood` hears of a program that never ends."""

    def __init__(
        self, emit: Callable[[Event], None], count: Callable[[ToolCallChanged], None], on_flood: Callable[[], None]
    ) -> None:
        self._emit, self._count, self._on_flood = emit, count, on_flood
        self._calls: dict[str, ToolCallChanged] = {}
        self._open: dict[str, None] = {}  # calls under way
        self._free: dict[str, None] = {}  # those of them that no request is a part of, oldest first
        self.spoken = 0  # characters that it has said to people
        self._chars = self._updates = 0
        self._said: list[str] = []

    @property
    def text(self) -> str:
        """What the program has said since its latest tool call."""
        return "".join(self._said)

    @property
    def under_way(self) -> int:
        """Calls that have not ended."""
        return len(self._open)

    def part_of(self, tool: str) -> str | None:
        """The call that a request for `tool` is the doing of: one under way, of that kind, for which nothing was asked
        yet. Each stands for one request, so that no more is done than is counted."""
        fits = PARTS.get(tool, ())
        call_id = next((each for each in self._free if self._calls[each].tool in fits), None)
        if call_id is not None:
            del self._free[call_id]
        return call_id

    def did(self, call_id: str, change: ToolCallChanged) -> None:
        """What was done for a call, as we and not the program know it. How it ends is the program's to say."""
        before = self._calls[call_id]
        if before.state not in OVER and change.state is not CallState.COMPLETED:
            ours = {"title": change.title, "input": change.input, "output": change.output}
            self._becomes(before, before.model_copy(update={**ours, "state": CallState.RUNNING}))

    def take(self, update: Any) -> None:
        """A session update, as the library's schema has it; kinds that are none of ours say nothing."""
        match update.session_update:
            case "agent_message_chunk":
                if text := self._within_bounds(update.content):
                    self._said.append(text)
                    self.spoken += len(text)
                    self._emit(TextDelta(text=text))
            case "agent_thought_chunk":
                if text := self._within_bounds(update.content):
                    self._emit(ReasoningDelta(text=text))
            case "tool_call" | "tool_call_update" | "plan" if self._updates >= MAX_UPDATES:
                self._on_flood()
            case "tool_call" | "tool_call_update":
                self._updates += 1
                self._call(update)
            case "plan":
                self._updates += 1
                entries = update.entries[:MAX_TODOS]
                todos = (
                    Todo(content=each.content[:MAX_TODO_CHARS], status=each.status, priority=each.priority)
                    for each in entries
                )
                self._emit(TodoUpdated(todos=tuple(todos)))
            case _:
                pass

    def begin(self) -> None:
        """Another prompt: what was said before is no answer to it."""
        self._said.clear()

    def prompted(self, text: str) -> None:
        """What it is told by Muster itself, for people to see."""
        self._emit(MessageAdded(role="user", text=text, synthetic=True))

    def end(self) -> None:
        """The program is over, and with it what it was at: it happened, and counts."""
        for call_id in tuple(self._open):
            before = self._calls[call_id]
            ended = {"state": CallState.ERROR, "output": NEVER_ENDED, "ended_at_ms": now_ms()}
            self._becomes(before, before.model_copy(update=ended))

    def _within_bounds(self, content: Any) -> str:
        text: str = content.text if content.type == "text" else ""
        self._chars += len(text)
        if self._chars > MAX_TEXT_CHARS:
            self._on_flood()
            return ""
        return text

    def _call(self, update: Any) -> None:
        call_id: str = update.tool_call_id[:MAX_ID_CHARS]
        before = self._calls.get(call_id)
        if before is None and len(self._calls) >= MAX_CALLS:
            self._on_flood()
            return
        if before is None:
            self._said.clear()
            self._open[call_id] = self._free[call_id] = None
        if before is None or before.state not in OVER:  # one that has ended stays so, and counts once
            self._becomes(before, _changed(before or _new(call_id), update))

    def _becomes(self, before: ToolCallChanged | None, call: ToolCallChanged) -> None:
        self._calls[call.call_id] = call.model_copy(update={"input": None, "output": ""})
        if before is None or (call.state, call.title) != (before.state, before.title) or call.input or call.output:
            self._emit(call)
        if call.state in OVER:
            self._open.pop(call.call_id)
            self._free.pop(call.call_id, None)
            self._count(call)


def _new(call_id: str) -> ToolCallChanged:
    return ToolCallChanged(call_id=call_id, tool="other", state=CallState.PENDING, started_at_ms=now_ms())


def _changed(call: ToolCallChanged, update: Any) -> ToolCallChanged:
    state = STATES.get(update.status or "", call.state)
    is_over = state in OVER
    return call.model_copy(
        update={
            "tool": TOOLS.get(update.kind, update.kind) if update.kind else call.tool,
            "state": state,
            "title": shortened(update.title, MAX_TITLE_CHARS) if update.title else call.title,
            "input": None if is_over else _input(update.raw_input),
            "output": redact_head(_output(update.content), SHOWN_CHARS) if is_over else "",
            "ended_at_ms": now_ms() if is_over else 0,
        }
    )


def _input(given: Any) -> dict[str, Any] | None:
    return shown(given) if isinstance(given, dict) else None


def _output(content: Any) -> str:
    texts = (each.content.text for each in content or () if each.type == "content" and each.content.type == "text")
    return "\n".join(texts)
