"""What a program tells of its work, as the events that people see of any agent. Nothing of it is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envelope.events import (
    CallState,
    Event,
    ReasoningDelta,
    TextDelta,
    Todo,
    TodoUpdated,
    ToolCallChanged,
)
from envelope.messages import ToolCallSummary
from envelope.redaction import redact_head

from ..clock import now_ms
from ..project.framing import shortened
from ..tools.dispatch import SHOWN_CHARS, shown

# All text of a task. The longest answers that models give are a hundredth of it.
MAX_TEXT_CHARS = 4 * 1024 * 1024
MAX_CALLS = 10_000
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
# The kinds of the protocol, by the names of our tools where we have one that does the same.
TOOLS = {"execute": "bash", "search": "grep", "fetch": "webfetch"}


class Told:
    """`on_flood` hears of a program that never ends."""

    def __init__(
        self, emit: Callable[[Event], None], count: Callable[[ToolCallSummary], None], on_flood: Callable[[], None]
    ) -> None:
        self._emit, self._count, self._on_flood = emit, count, on_flood
        self._calls: dict[str, ToolCallChanged] = {}
        self._chars = self._updates = 0
        self._said: list[str] = []

    @property
    def text(self) -> str:
        """What the program has said since its latest tool call."""
        return "".join(self._said)

    @property
    def is_at_work(self) -> bool:
        return any(call.state not in OVER for call in self._calls.values())

    def take(self, update: Any) -> None:
        """A session update, as the library's schema has it; kinds that are none of ours say nothing."""
        match update.session_update:
            case "agent_message_chunk":
                if text := self._within_bounds(update.content):
                    self._said.append(text)
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
        call = _changed(before or _new(call_id), update)
        self._calls[call_id] = call.model_copy(update={"input": None, "output": ""})
        if before is None or (call.state, call.title) != (before.state, before.title) or call.input:
            self._emit(call)
        if call.state in OVER and (before is None or before.state not in OVER):
            took_ms = call.ended_at_ms - call.started_at_ms
            is_error = call.state is CallState.ERROR
            self._count(ToolCallSummary(tool=call.tool, title=call.title, is_error=is_error, duration_ms=took_ms))


def _new(call_id: str) -> ToolCallChanged:
    return ToolCallChanged(call_id=call_id, tool="other", state=CallState.PENDING, started_at_ms=now_ms())


def _changed(call: ToolCallChanged, update: Any) -> ToolCallChanged:
    """One that has ended stays so, and counts once."""
    if call.state in OVER:
        return call
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
