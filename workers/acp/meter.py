"""A program's model calls, made as the task's own: counted, capped, paid, limited, retried and stored like any turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from envelope.events import Event
from transport.raising import ask_for_more, ask_for_more_of_tenant

from ..agent.bound import Size, request_tokens
from ..agent.budget import Stop, why_stop
from ..agent.means import Loop
from ..agent.paying import paid_call
from ..delivery.holding import Holding
from ..errors import WorkerError
from ..llm.base import ChatMessage, Completed, Failed, Failure, ToolSpec
from .keeper import Keeper
from .told import MAX_ID_CHARS

Answer = Completed | Failed | Stop
OVER = Failed(Failure.UNAVAILABLE, "nobody waits for this reply any more")


class Meter:
    """One call after another: each is judged by what all before it have spent. What was begun is paid, and so it is not
    broken off when nobody waits for its reply any more; `async with` waits for it.

    The session counts for the task, also over attempts; what the program's messages are is its own affair. `failed` is
    what the latest call failed with; `on_stop` hears of a grant that is used up, `on_failure` what ends the attempt.
    """

    def __init__(
        self,
        keeper: Keeper,
        loop: Loop,
        holding: Holding,
        on_stop: Callable[[Stop], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.failed: Failed | None = None
        self.results_read = 0  # calls of the model that were about what became of the program's calls
        self._keeper, self._loop, self._holding = keeper, loop, holding
        self._on_stop, self._on_failure = on_stop, on_failure
        self._turn = asyncio.Lock()  # of whose call it is; given back when the call is over
        self._under_way: asyncio.Task[Answer] | None = None
        self._stop: Stop | None = None
        self._replies: dict[str, Completed] = {}
        self._reasons: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Whoever asked has left by now."""
        if self._under_way is not None:
            if kind is not None and not issubclass(kind, WorkerError):
                self._under_way.cancel()
            await asyncio.gather(self._under_way, return_exceptions=True)

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    @property
    def model(self) -> str:
        return self._keeper.session.model

    def explain(self, call_id: str, reason: str) -> None:
        """Why the program may not do what its model has called for: its protocol has no place for more than a no, and
        so the model reads it in the call's result, now and in each later request."""
        if len(call_id) <= MAX_ID_CHARS:  # those of models are short
            self._reasons[call_id] = reason

    async def call(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Answer:
        """Who is cancelled before its turn has asked nothing; later it has, but waits for no money any more."""
        self.results_read += any(message.role == "tool" for message in messages)
        await self._turn.acquire()
        is_wanted = True
        call = self._under_way = asyncio.create_task(
            self._call([self._as_it_was(each) for each in messages], tools, lambda: is_wanted)
        )
        call.add_done_callback(self._done)
        try:
            return await asyncio.shield(call)
        finally:
            is_wanted = False

    def _done(self, call: asyncio.Task[Answer]) -> None:
        self._under_way = None
        self._turn.release()
        if not call.cancelled() and (error := call.exception()):
            self._on_failure(error)

    async def _call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], is_wanted: Callable[[], bool]
    ) -> Answer:
        if self._stop is not None:
            return self._stop
        if stop := why_stop(self._keeper.session, exhausted=self._loop.exhausted()):
            self._loop.emit(stop.event)
            return self._stopped(stop)
        tokens = request_tokens(messages, tools)  # the relay carries no files
        pay = partial(paid_call, messages=messages, tools=tools, loop=self._loop, size=Size(tokens, tokens))
        while isinstance(paid := await pay(self._keeper.without_costs, tell=_nobody_listens), Stop):
            self._loop.emit(paid.event)
            if not await self._is_raised(paid, is_wanted):
                return self._stopped(paid) if is_wanted() else OVER
        await self._keeper.pay(paid.session)
        self.failed = paid.reply if isinstance(paid.reply, Failed) else None
        if isinstance(paid.reply, Completed) and (paid.reply.provider_items or paid.reply.reasoning):
            self._replies |= {call.id: paid.reply for call in paid.reply.tool_calls}
        return paid.reply

    async def _is_raised(self, stop: Stop, is_wanted: Callable[[], bool]) -> bool:
        """Has somebody allowed more money? The program waits for its reply meanwhile, as for a slow model."""
        if stop.waits_at_microusd is None:
            return False
        ask = ask_for_more_of_tenant if stop.waits_for_tenant else ask_for_more
        return await self._holding.is_raised(ask(stop.waits_at_microusd), is_wanted)

    def _stopped(self, stop: Stop) -> Stop:
        self._stop = stop
        self._on_stop(stop)
        return stop

    def _as_it_was(self, message: ChatMessage) -> ChatMessage:
        """With the thoughts that its provider wants to see again, and the program's format has no place for; and with
        the reason of a no."""
        if message.role == "tool" and (reason := self._reasons.get(message.tool_call_id)):
            return message.model_copy(update={"content": f"{message.content}\n{reason}"})
        reply = next((self._replies[call.id] for call in message.tool_calls if call.id in self._replies), None)
        if reply is None or {call.id for call in message.tool_calls} != {call.id for call in reply.tool_calls}:
            return message
        told = {"provider_items": reply.provider_items, "reasoning": reply.reasoning, "tool_calls": reply.tool_calls}
        return message.model_copy(update=told)


def _nobody_listens(event: Event) -> None:
    """People hear what the program makes of a reply."""
