"""The people who can be asked in an attempt: what they say comes by the queue, to whichever worker has the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envelope.asks import Reply, read_reply
from envelope.deadline import remaining_ms
from envelope.errors import BadSignature
from envelope.events import AskOpened, Event, WarningRaised
from envelope.ids import digest_of
from envelope.logs import get_logger
from envelope.redaction import hides_what_counts, texts_of
from envelope.scope import Grant, split
from transport.approvals import Answer, Subject
from transport.audit import TIMEOUT
from transport.base import Claim, Transport
from transport.errors import NotFound

from ..permissions.guard import Allowed, Ask, Denied, Guard
from ..permissions.rules import Action, Rule
from ..tools.base import Target
from ..tools.errors import ToolError
from ..tools.people import Asked, Said
from .attempt import Attempt, session_of
from .reporter import redacted

# Whoever hears a no, or nothing, needs time to make something else of the task before its deadline.
DEADLINE_SHARE = 0.9
# A goal's subagents at most; what more of them were allowed is asked again.
MAX_TASKS = 1000
NOT_SHOWN = (
    "people must see all of this to say yes, and a part of it looks as if it holds a secret (a key, a token, a password"
    " in an address), which nobody is shown; do it without"
)
STRUCK = "answer_struck"
ACTIONS = {Allowed: Action.ALLOW, Ask: Action.ASK, Denied: Action.DENY}

log = get_logger("people")


@dataclass(slots=True)
class QueuedPeople:
    """See `People`."""

    transport: Transport
    claim: Claim
    guard: Guard
    timeout_ms: int
    report: Callable[[Event], None]
    approved: tuple[Rule, ...] = ()
    turn: int = 0
    granted: dict[str, Asked] = field(default_factory=dict[str, Asked])
    suspect: str = ""
    struck: int = 0
    approved_in: tuple[str, ...] = ()

    def action(self, permission: str, pattern: str) -> Action:
        return ACTIONS[type(self.guard.judge([Target(permission, pattern)], self.approved))]

    async def learn(self) -> None:
        tasks = await self.transport.tasks(trace_id=self.claim.lease.trace_id, limit=MAX_TASKS)
        found = await asyncio.gather(*(self.transport.answers(task.task_id) for task in tasks))
        for task, answers in zip(tasks, found, strict=True):
            self._learn(Subject(self.transport.fleet, self.claim.lease.trace_id, task.task_id, ""), answers)

    async def recall(self, session: str, task_ids: Sequence[str]) -> None:
        """What people have allowed in these tasks, as far as they are of the session, or below one that is."""
        for task_id in dict.fromkeys(task_ids[-MAX_TASKS:]):
            try:
                if trace_id := await self._trace_in(session, task_id):
                    answers = await self.transport.answers(task_id)
                    self._learn(Subject(self.transport.fleet, trace_id, task_id, ""), answers)
            except (NotFound, BadSignature):  # no longer kept, or nobody's: people are asked again
                continue

    async def _trace_in(self, session: str, task_id: str) -> str:
        request = await self.transport.request(task_id)
        trace_id = request.trace_id
        while session_of(request) != session:
            if request.parent_task_id is None:
                return ""
            request = await self.transport.request(request.parent_task_id)
        return trace_id

    def _learn(self, task: Subject, answers: Mapping[str, Answer]) -> None:
        for ask_id, answer in answers.items():
            reply = _said(answer).reply
            fault = self.transport.approvals.fault(replace(task, ask_id=ask_id), answer)
            if reply.choice == "always" and not fault:
                self.approve(reply.rules)
                self._note(task.task_id)

    def _note(self, task_id: str) -> None:
        self.approved_in = tuple(dict.fromkeys((*self.approved_in, task_id)))

    async def asked(self, call_id: str, asks: Sequence[AskOpened], *, title: str) -> Asked:
        if not all(map(_is_shown_whole, asks)):
            raise ToolError(NOT_SHOWN)
        now_ms = await self.transport.now_ms()
        left_ms = remaining_ms(self.claim.expires_at_ms, now_ms=now_ms)
        until_ms = now_ms + min(self.timeout_ms, int(left_ms * DEADLINE_SHARE))
        named = tuple(ask.model_copy(update={"ask_id": self._id(call_id, ask), "until_ms": until_ms}) for ask in asks)
        return Asked(named, until_ms, title=title)

    def approve(self, grants: Iterable[Grant]) -> None:
        self.approved = tuple(dict.fromkeys((*self.approved, *rules_of(grants))))

    async def said(self, asks: Sequence[AskOpened]) -> Mapping[str, Said]:
        answers = await self.transport.answers(self.claim.lease.task_id)
        heard: dict[str, Said] = {}
        for ask in asks:
            if (answer := answers.get(ask.ask_id)) is None:
                continue
            if why := await self._why_struck(ask, answer):
                await self._strike(ask.ask_id, answer, why)
            elif answer.by != TIMEOUT:
                heard[ask.ask_id] = _said(answer)
                if heard[ask.ask_id].reply.choice == "always":
                    self._note(self.claim.lease.task_id)
        return heard

    async def _why_struck(self, ask: AskOpened, answer: Answer) -> str:
        """A no is a no, also from somebody who could not see any more what was asked."""
        if not self.transport.approvals.are_known:
            return ""
        if answer.by == TIMEOUT:
            return "" if await self.now_ms() >= ask.until_ms else "its time is not over"
        if why := self._fault(self.claim.lease.task_id, ask.ask_id, answer):
            return why
        is_no = _said(answer).reply.choice == "reject"
        shown = redacted(ask)
        is_this = isinstance(shown, AskOpened) and answer.asked == shown.digest()
        if not is_this and not (is_no and not answer.asked):
            return "whoever gave it was shown another question"
        return "" if is_no or _is_shown_whole(ask) else "a part of the question was not shown"

    def _fault(self, task_id: str, ask_id: str, answer: Answer) -> str:
        subject = Subject(self.transport.fleet, self.claim.lease.trace_id, task_id, ask_id)
        return self.transport.approvals.fault(subject, answer)

    async def _strike(self, ask_id: str, answer: Answer, why: str) -> None:
        await self.transport.strike_answer(self.claim.lease.task_id, ask_id, answer)
        self.struck += 1
        log.warning("answer_struck", task_id=self.claim.lease.task_id, ask_id=ask_id, by=answer.by, reason=why)
        self.report(
            WarningRaised(
                message=f"an answer in the name of {answer.by!r} is not taken: {why}",
                hint="answer again; if nobody gave it, somebody else writes to the fleet's Redis (docs/audit.md)",
                code=STRUCK,
            )
        )

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


async def people_of(
    transport: Transport, attempt: Attempt, approved_in: Sequence[str], *, timeout_ms: int
) -> QueuedPeople | None:
    """None for a headless task. `approved_in`: as its session says; `timeout_ms`: where the task names none."""
    terms = attempt.request.asks
    if terms is None:
        return None
    time_ms = terms.timeout_ms or timeout_ms
    people = QueuedPeople(transport, attempt.claim, attempt.guard, time_ms, attempt.reporter.report)
    people.approve(terms.approved)
    await people.recall(session_of(attempt.request), approved_in)
    return people


def rules_of(grants: Iterable[Grant]) -> tuple[Rule, ...]:
    return tuple(Rule(*split(grant), Action.ALLOW) for grant in grants)


def _is_shown_whole(ask: AskOpened) -> bool:
    """All but known secrets and logins of addresses. A yes is to what redaction has blanked out, too."""
    return not any(map(hides_what_counts, texts_of(ask.model_dump())))


def _said(answer: Answer) -> Said:
    return Said(read_reply(answer.text), answer.by)
