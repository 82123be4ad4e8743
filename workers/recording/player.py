"""The tape that plays: the world is what a cassette says it was, and the first thing that is done otherwise ends it."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any, TypeVar

from pydantic import TypeAdapter

from envelope.errors import ErrorCode

from ..agent.calls import OnChange, RunCalls
from ..agent.session import Session
from ..llm.base import ChatMessage, Completed, ModelEvent, ToolCall, ToolChoice, ToolSpec
from ..llm.cassette import (
    Answers,
    Call,
    Ended,
    Entry,
    Exhausted,
    Heard,
    HeardOfChildren,
    Kept,
    Offered,
    Request,
    ToolAnswer,
    reply_of,
    request_after,
    request_of,
)
from ..llm.retry import Retrying
from ..tools.base import CallResult, Target, Tool, ToolContext, ToolResult
from .tape import Foreign, Hear, Told

T = TypeVar("T")
E = TypeVar("E", bound=Entry)

# Enough for a whole prompt, old and new; the rest of a difference mostly follows from its beginning.
MAX_DIFF_LINES = 100


@dataclass
class Difference(Exception):
    """What the task does now and did not then. `turn` is 0 before the first; `diff` is unified, and may be empty."""

    turn: int
    what: str
    diff: str = ""


class NotRecorded(Exception):
    """The cassette stops here, because the task was stopped: so far there is no difference."""


class ToldNo(Exception):
    """Here a person refused, and that was the end of the task."""


class Player:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._found = {entry.name: entry.value for entry in entries if isinstance(entry, Kept)}
        self._replies = [reply_of(entry) for entry in entries if isinstance(entry, Call)]
        if not all(self._replies):
            raise ValueError("a model call without a reply")
        self._request = Request("", (), ())  # of the last call; each is made of the one before it
        self._completed = 0
        self._script = [entry for entry in entries if not isinstance(entry, Kept)]
        self._foreign: Sequence[Tool] = []
        self._at = 0
        self._call = 0
        self.turn = 0
        self.answered = 0

    @property
    def calls(self) -> int:
        """How many model calls were made again."""
        return self._call

    async def kept(self, name: str, kind: TypeAdapter[T], find: Callable[[], Awaitable[T]]) -> T:
        if name not in self._found:
            raise Difference(self.turn, f"it asks for the {name}, which was not recorded")
        try:
            return kind.validate_python(self._found[name])
        except ValueError as e:
            raise Difference(self.turn, f"it reads the {name} in another form than was recorded") from e

    def model(self, model: Retrying) -> Retrying:
        """Waits between tries take no time, and a try that had no time then has none now."""
        return replace(model, model=_Played(model.name, self.reply), pause=_no_pause, time_left_s=self._time_left_s)

    def run_calls(self, run: RunCalls) -> RunCalls:
        async def answers(calls: Sequence[ToolCall], on_change: OnChange) -> list[CallResult]:
            recorded = self._next(Answers, "it runs tool calls").answers
            now, then = [call.id for call in calls], [answer.call_id for answer in recorded]
            if now != then[: len(now)]:
                raise Difference(self.turn, "it runs other tool calls", _diff(then, now))
            self.answered += len(recorded)
            if isinstance(end := self._peek(), Ended) and end.error == ErrorCode.REFUSED:
                raise ToldNo
            return [_result(answer) for answer in recorded[: len(now)]]

        return answers

    def hear(self, hear: Hear) -> Hear:
        async def listen() -> Sequence[str]:
            return self._next(Heard, "it listens").prompts if isinstance(self._peek(), Heard) else ()

        return listen

    def told(self, told: Told) -> Told:
        async def listen(session: Session) -> Mapping[str, str]:
            is_told = isinstance(self._peek(), HeardOfChildren)
            return self._next(HeardOfChildren, "it listens").words if is_told else {}

        return listen

    def foreign(self, tools: Foreign) -> Foreign:
        async def recorded() -> Sequence[Tool]:
            self._peek()
            return self._foreign

        return recorded

    def exhausted(self, exhausted: Callable[[], str]) -> Callable[[], str]:
        def ask() -> str:
            entry = self._peek()
            if not isinstance(entry, Exhausted):
                return ""
            self._at += 1
            return entry.whose

        return ask

    def opened(self, session: Session) -> None:
        pass

    async def saving(self, session: Session) -> Session:
        return session

    def reply(self, now: Request) -> Sequence[ModelEvent]:
        """What the model said when it was asked this."""
        recorded = self._request = request_after(self._request, self._next(Call, "it asks the model once more"))
        self.turn = 1 + self._completed
        if now != recorded:
            raise Difference(self.turn, "it asks the model something else", _diff(_lines(recorded), _lines(now)))
        reply = self._replies[self._call]
        self._call += 1
        self._completed += isinstance(reply[-1], Completed)
        return reply

    def check_end(self, text: str, error: str) -> None:
        """Raises `Difference` unless the task ended so, and there."""
        if isinstance(self._peek(), Call | Answers):
            raise Difference(self.turn, "it ends here, and went on then")
        ended = self._next(Ended, "it ends")
        if (ended.text, ended.error) != (text, error):
            then, now = _end_lines(ended.text, ended.error), _end_lines(text, error)
            raise Difference(self.turn, "it ends in another way", _diff(then, now))

    def _peek(self) -> Entry | None:
        """What comes next. An end that something follows was none: a word came in at the last moment."""
        while (entry := self._here()) is not None:
            if isinstance(entry, Offered):
                self._foreign = [_Shown(**tool) for tool in entry.tools]
            elif not isinstance(entry, Ended) or self._at + 1 == len(self._script):
                return entry
            self._at += 1
        return None

    def _here(self) -> Entry | None:
        return self._script[self._at] if self._at < len(self._script) else None

    def _next(self, kind: type[E], now: str) -> E:
        entry = self._peek()
        if entry is None:
            raise NotRecorded
        if not isinstance(entry, kind):
            raise Difference(self.turn, f"{now}, which it did not then")
        self._at += 1
        return entry

    def _time_left_s(self) -> float:
        return math.inf if isinstance(self._peek(), Call) else 0.0


def _result(answer: ToolAnswer) -> ToolResult:
    return ToolResult(answer.content, is_error=answer.is_error, files=answer.files)


@dataclass
class _Shown:
    """A tool of others, as the model saw it."""

    name: str
    description: str
    parameters: dict[str, Any]

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return self.name

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        raise AssertionError("what it came to is on the cassette")


@dataclass(frozen=True, slots=True)
class _Played:
    name: str
    reply: Callable[[Request], Sequence[ModelEvent]]

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        for event in self.reply(request_of(self.name, messages, tools, tool_choice)):
            yield event


async def _no_pause(_: float) -> None: ...


def _end_lines(text: str, error: str) -> list[str]:
    return [f"[{error or 'completed'}]", *text.splitlines()]


def _diff(then: Sequence[str], now: Sequence[str]) -> str:
    lines = list(unified_diff(then, now, "recorded", "now", n=2, lineterm=""))
    more = len(lines) - MAX_DIFF_LINES
    return "\n".join([*lines[:MAX_DIFF_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _lines(request: Request) -> list[str]:
    """A request as a person compares it."""
    lines = [f"[model] {request.model}"]
    for tool in request.tools:
        lines += [f"[tool] {tool['name']}", *str(tool["description"]).splitlines(), _json(tool["parameters"])]
    for message in request.messages:
        lines += _message_lines(message)
    return lines


def _message_lines(message: Mapping[str, Any]) -> list[str]:
    named = ("role", "content", "tool_calls")
    rest = {name: value for name, value in message.items() if name not in named}
    head = f"[{message['role']}]" + (f" {_json(rest)}" if rest else "")
    calls = [f"calls {call['name']} {call['arguments']}" for call in message.get("tool_calls", ())]
    return [head, *str(message.get("content", "")).splitlines(), *calls]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
