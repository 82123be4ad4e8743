"""Taking in what people have answered to the asks of an open turn: the calls that they allow run now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envelope.events import AskOpened, Event
from envelope.scope import Grant
from transport.base import Wait

from ..clock import now_ms
from ..tools.base import ToolContext, ToolResult
from ..tools.dispatch import ended_event
from ..tools.people import Asked, People, Said
from ..tools.question import PLAN_EXIT
from .calls import Answered, RunCalls, answer
from .session import PROMPT_IT, Session
from .verdicts import Granted, Late, Refused, Told, Verdict, Waits, answered_events, judge

REFUSED_HINT = f"a refusal with --message lets the agent go on without it; this one can go on with: {PROMPT_IT}"
AFTER_PLAN = "build"  # who carries out what `plan` has planned
DENIED = ToolResult("permission denied", is_error=True)


@dataclass(frozen=True, slots=True)
class Heard:
    """`refused`: what a person said no to, without another word; every call has its answer then."""

    answers: list[Answered]
    refused: AskOpened | None = None


async def hear_people(
    answers: Sequence[Answered], context: ToolContext, run_calls: RunCalls, emit: Callable[[Event], None]
) -> Heard:
    """The answers with those in their places that people have settled; what still waits is asked (again)."""
    people = context.people
    asked = {one.call.id: one.result for one in answers if isinstance(one.result, Asked)}
    if not asked or people is None:
        return Heard(list(answers))
    said = await people.said([ask for each in asked.values() for ask in each.asks])
    people.approve(grant for each in asked.values() for grant in _always(each, said))
    moment_ms = await people.now_ms()
    verdicts = {call_id: judge(each, said, people.approved, now_ms=moment_ms) for call_id, each in asked.items()}
    late = [ask for verdict in verdicts.values() if isinstance(verdict, Late) for ask in verdict.asks]
    if late and await people.close(late):
        return await hear_people(answers, context, run_calls, emit)
    for call_id, verdict in verdicts.items():
        for event in verdict.asks if isinstance(verdict, Waits) else answered_events(asked[call_id], said):
            emit(event)
    refused = next((verdict.ask for verdict in verdicts.values() if isinstance(verdict, Refused)), None)
    if refused is not None:
        return Heard([_denied(one, emit) for one in answers], refused)
    people.granted = {call_id: asked[call_id] for call_id, each in verdicts.items() if isinstance(each, Granted)}
    allowed = [one.call for one in answers if one.call.id in people.granted]
    ran = {one.call.id: one for one in await answer(allowed, run_calls, emit, left=None)}
    people.granted = {}
    return Heard([ran.get(one.call.id) or _told(one, verdicts.get(one.call.id), emit) for one in answers])


def refusal(heard: Heard) -> str:
    """What ended the task, in a sentence."""
    ask = heard.refused
    what = f"{ask.permission} {', '.join(ask.patterns)}".strip() if ask else ""
    return f"a person refused: {what}"


def plan_approved(answers: Sequence[Answered]) -> bool:
    """May what the agent has planned be carried out? Of `plan_exit` nothing else is a result without an error."""
    ends = [one.result for one in answers if one.call.name == PLAN_EXIT and isinstance(one.result, ToolResult)]
    return any(not result.is_error for result in ends)


def with_approvals(session: Session, people: People | None) -> Session:
    """The session with where people have allowed something for good."""
    return session.model_copy(update={"approved_in": people.approved_in}) if people else session


def wait_of(answers: Sequence[Answered]) -> Wait:
    """What a turn is left open for: the subagents and the asks that are still out, these up to their time."""
    asked = [one.result for one in answers if isinstance(one.result, Asked)]
    asks = frozenset(ask.ask_id for each in asked for ask in each.missing)
    until_ms = min((each.until_ms for each in asked), default=None)
    return Wait(frozenset(one.child for one in answers if one.child), asks, until_ms)


def _always(asked: Asked, said: Mapping[str, Said]) -> Iterator[Grant]:
    for ask in asked.asks:
        if ask.ask_id in said and said[ask.ask_id].reply.choice == "always":
            yield from ask.always


def _told(answered: Answered, verdict: Verdict | None, emit: Callable[[Event], None]) -> Answered:
    match verdict, answered.result:
        case Told(result), _:
            return _with(answered, result, emit)
        case Waits(missing), Asked() as asked:
            return replace(answered, result=replace(asked, missing=missing))
        case _:
            return answered


def _denied(answered: Answered, emit: Callable[[Event], None]) -> Answered:
    return _with(answered, DENIED, emit) if answered.waits else answered


def _with(answered: Answered, result: ToolResult, emit: Callable[[Event], None]) -> Answered:
    at_ms = now_ms()
    emit(ended_event(answered.call, result, at_ms, at_ms))
    return replace(answered, result=result)
