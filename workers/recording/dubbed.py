"""The tape that answers for the model alone: what a cassette's model said is said again, and the tools run.

So that a gate, a sandbox or a tool is tried on recorded work, at no cost. Where the world answers otherwise than it
did, the replies stay as they were.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from ..agent.calls import OnChange, RunCalls
from ..agent.session import Session
from ..errors import BadInput
from ..llm.base import ChatMessage, Completed, ModelEvent, ToolCall, ToolChoice, ToolSpec
from ..llm.cassette import Answers, Call, ToolAnswer, reply_of
from ..llm.prices import Price
from ..llm.retry import Retrying
from ..tools.base import CallResult, ToolResult
from ..tools.task import TASK
from .reading import entries_of, readable
from .tape import NoTape

T = TypeVar("T")

PRICE_NAME = "price"  # of the model that a task begins with; `price of MODEL` of one that goes on
NO_PRICE = Price(0, 0)  # nothing is asked, so nothing is paid


class Dubbed(NoTape):
    """A failed try is not played again. What a subagent said is on the cassette: none is started. What was asked then
    is left where it is: it may be long, and nobody compares it."""

    def __init__(self, cassette: bytes) -> None:
        """`BadInput` for what is no cassette. Takes seconds for the longest: call it in a thread."""
        self._replies: list[tuple[ModelEvent, ...]] = []
        self._answers: dict[str, ToolAnswer] = {}
        self._at = 0
        for entry in entries_of(cassette):
            if isinstance(entry, Answers):
                self._answers |= {answer.call_id: answer for answer in entry.answers if answer.name == TASK}
            elif isinstance(entry, Call):
                with readable():
                    reply = reply_of(entry)
                if reply and isinstance(end := reply[-1], Completed):
                    # what it cost then is not paid again
                    self._replies.append((*reply[:-1], replace(end, cost_microusd=None)))

    async def kept(self, name: str, kind: TypeAdapter[T], find: Callable[[], Awaitable[T]]) -> T:
        return cast(T, NO_PRICE) if name.startswith(PRICE_NAME) else await find()

    def opened(self, session: Session) -> None:
        """Another attempt goes on after the turns that the one before it has stored."""
        self._at = session.turn

    def model(self, model: Retrying) -> Retrying:
        return replace(model, model=_Dub(model.name, self._reply))

    def run_calls(self, run: RunCalls) -> RunCalls:
        async def answers(calls: Sequence[ToolCall], on_change: OnChange) -> list[CallResult]:
            known = {
                call.id: self._answers[call.id] for call in calls if call.name == TASK and call.id in self._answers
            }
            if lost := next((call for call in calls if call.name == TASK and call.id not in known), None):
                raise BadInput(f"the recording has no answer of the subagent {lost.id!r}", hint="record the task again")
            ran = iter(await run([call for call in calls if call.id not in known], on_change))
            said: dict[str, CallResult] = {
                key: ToolResult(one.content, is_error=one.is_error, files=one.files) for key, one in known.items()
            }
            return [said[call.id] if call.id in said else next(ran) for call in calls]

        return answers

    def _reply(self) -> Sequence[ModelEvent]:
        if self._at >= len(self._replies):
            raise BadInput(
                f"the recording has {len(self._replies)} replies, and the task asks for another",
                hint="the tools answered otherwise than then; record the task again",
            )
        self._at += 1
        return self._replies[self._at - 1]


@dataclass(frozen=True, slots=True)
class _Dub:
    name: str
    reply: Callable[[], Sequence[ModelEvent]]

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, Any]:
        for event in self.reply():
            yield event
