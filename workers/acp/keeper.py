"""The session of a program's task, and all that may change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from envelope.budget import Usage
from envelope.events import CallState, MessageAdded, ToolCallChanged
from envelope.messages import ToolCallSummary

from ..agent.budget import calls_left
from ..agent.hearing import with_approvals
from ..agent.history import with_prompts
from ..agent.means import Loop
from ..agent.session import Outcome, Session
from ..llm.base import ChatMessage


class Keeper:
    """Model calls, people and the program change the session beside each other: each changes its own part of what it is
    by then, and nobody puts back an earlier one. It is stored by one after another."""

    def __init__(self, session: Session, loop: Loop) -> None:
        self.session = session
        self._loop = loop
        self._storing = asyncio.Lock()

    @property
    def calls_left(self) -> int | None:
        """How many tool calls the budget allows beside those that have ended; None: as many as any task may make."""
        return calls_left(self.session)

    def count(self, call: ToolCallChanged) -> None:
        """A tool call that has ended; stored with what is stored next."""
        summary = ToolCallSummary(
            tool=call.tool,
            title=call.title,
            is_error=call.state is CallState.ERROR,
            duration_ms=call.ended_at_ms - call.started_at_ms,
        )
        self.session = self.session.model_copy(update={"tool_calls": (*self.session.tool_calls, summary)})

    @property
    def without_costs(self) -> Session:
        """For a model call: what it adds is told from what others add meanwhile (see `pay`)."""
        return self.session.model_copy(update={"usage": Usage(), "cost_microusd": 0})

    async def pay(self, paid: Session) -> None:
        """Store what a call has cost that began with `without_costs`.

        What a lost attempt has done is not gone on with: the workspace is not stored.
        """

        def with_costs(session: Session) -> Session:
            usage, cost = session.usage + paid.usage, session.cost_microusd + paid.cost_microusd
            return session.model_copy(update={"turn": paid.turn, "usage": usage, "cost_microusd": cost})

        async with self._storing:
            await self._store(with_costs, with_work=False)

    async def hear(self, said: str) -> Sequence[str]:
        """What people have said until now, which the program has answered nothing to: its last word was `said`.

        It is in the session, with the work that it is about, before it leaves their mail.
        """
        async with self._storing:
            await self._store(lambda session: session, with_work=False)  # which tells what is in the mail
            prompts = await self._loop.hear()
            if prompts:
                for prompt in prompts:
                    self._loop.emit(MessageAdded(role="user", text=prompt))
                await self._store(lambda session: with_prompts(_with_words(session, said), prompts), with_work=True)
        return prompts

    async def end(self, outcome: Outcome) -> Session:
        async with self._storing:
            ended = {"outcome": outcome}
            await self._store(
                lambda session: _with_words(session, outcome.text).model_copy(update=ended), with_work=True
            )
        return self.session

    async def _store(self, change: Callable[[Session], Session], *, with_work: bool) -> None:
        """Calls that are counted meanwhile stay counted."""
        self._loop.context.may_have_written = with_work
        changed = with_approvals(change(self.session), self._loop.context.people)
        stored = await self._loop.save(changed)
        self.session = stored.model_copy(update={"tool_calls": self.session.tool_calls})


def _with_words(session: Session, text: str) -> Session:
    said = (ChatMessage(role="assistant", content=text, agent=session.agent),) if text else ()
    return session.model_copy(update={"messages": (*session.messages, *said)})
