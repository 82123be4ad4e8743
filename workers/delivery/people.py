"""The people who can be asked in an attempt: what they say comes by the queue, to whichever worker has the task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.asks import Reply, read_reply
from envelope.deadline import remaining_ms
from envelope.events import AskOpened
from envelope.ids import digest_of
from envelope.scope import Grant, split
from transport.audit import TIMEOUT
from transport.base import Answer, Claim, Transport

from ..permissions.guard import Allowed, Ask, Denied, Guard
from ..permissions.rules import Action, Rule
from ..tools.base import Target
from ..tools.people import Asked, Said
from .attempt import Attempt

# Whoever hears a no, or nothing, needs time to make something else of the task before its deadline.
DEADLINE_SHARE = 0.9
# A goal's subagents at most; what more of them were allowed is asked again.
MAX_TASKS = 1000
ACTIONS = {Allowed: Action.ALLOW, Ask: Action.ASK, Denied: Action.DENY}


@dataclass(slots=True)
class QueuedPeople:
    """See `People`."""

    transport: Transport
    claim: Claim
    guard: Guard
    timeout_ms: int
    approved: tuple[Rule, ...] = ()
    turn: int = 0
    granted: dict[str, str] = field(default_factory=dict[str, str])
    suspect: str = ""

    def action(self, permission: str, pattern: str) -> Action:
        return ACTIONS[type(self.guard.judge([Target(permission, pattern)], self.approved))]

    async def learn(self) -> None:
        tasks = await self.transport.tasks(trace_id=self.claim.lease.trace_id, limit=MAX_TASKS)
        answers = await asyncio.gather(*(self.transport.answers(task.task_id) for task in tasks))
        replies = (_said(answer).reply for each in answers for answer in each.values())
        self.approve(grant for reply in replies if reply.choice == "always" for grant in reply.rules)

    async def asked(self, call_id: str, asks: Sequence[AskOpened], *, title: str) -> Asked:
        now_ms = await self.transport.now_ms()
        left_ms = remaining_ms(self.claim.expires_at_ms, now_ms=now_ms)
        until_ms = now_ms + min(self.timeout_ms, int(left_ms * DEADLINE_SHARE))
        named = tuple(ask.model_copy(update={"ask_id": self._id(call_id, ask), "until_ms": until_ms}) for ask in asks)
        return Asked(named, until_ms, title=title)

    def approve(self, grants: Iterable[Grant]) -> None:
        self.approved = tuple(dict.fromkeys((*self.approved, *rules_of(grants))))

    async def said(self) -> Mapping[str, Said]:
        answers = await self.transport.answers(self.claim.lease.task_id)
        return {ask_id: _said(answer) for ask_id, answer in answers.items() if answer.by != TIMEOUT}

    async def close(self, asks: Sequence[AskOpened]) -> bool:
        """By an answer of the clock's: of two answers the first stands, and the log says whose it is."""
        task_id, no = self.claim.lease.task_id, Reply(choice="reject").text()
        ends = [await self.transport.answer(task_id, ask.ask_id, no, by=TIMEOUT) for ask in asks]
        return any(end.by != TIMEOUT for end in ends)

    async def now_ms(self) -> int:
        return await self.transport.now_ms()

    def _id(self, call_id: str, ask: AskOpened) -> str:
        """An answer is to this very ask: a model that is asked again may give another call the same id."""
        task_id = self.claim.lease.task_id
        return "ask_" + digest_of(task_id, str(self.turn), call_id, ask.model_dump_json())[:16]


def people_of(
    transport: Transport, attempt: Attempt, approved: Sequence[Grant], *, timeout_ms: int
) -> QueuedPeople | None:
    """None for a headless task. `approved`: by its session; `timeout_ms`: where the task names none."""
    terms = attempt.request.asks
    if terms is None:
        return None
    people = QueuedPeople(transport, attempt.claim, attempt.guard, terms.timeout_ms or timeout_ms)
    people.approve((*terms.approved, *approved))
    return people


def rules_of(grants: Iterable[Grant]) -> tuple[Rule, ...]:
    return tuple(Rule(*split(grant), Action.ALLOW) for grant in grants)


def _said(answer: Answer) -> Said:
    return Said(read_reply(answer.text), answer.by)
