"""What people's answers mean for a call that waits for them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envelope.asks import Reply
from envelope.events import AskAnswered, AskOpened

from ..permissions.rules import Action, Rule, evaluate
from ..tools.base import ToolResult
from ..tools.people import Asked, Said
from ..tools.question import NO, PLAN_EXIT, YES

TIMED_OUT = (
    "Not run: nobody has answered in time whether it may. Do without it, or say at the end what you could not do."
)
NO_ANSWER = "(no answer)"


@dataclass(frozen=True, slots=True)
class Waits:
    """These have no answer yet."""

    asks: tuple[AskOpened, ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """The call may run, if it still does what was shown."""

    shown: str


@dataclass(frozen=True, slots=True)
class Told:
    """The call has its result: what a person said instead, or that nobody did."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Late(Told):
    """These were not answered in time: the clock has said no."""

    asks: tuple[AskOpened, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A person said no, and nothing else: the task ends."""

    ask: AskOpened


Verdict = Waits | Granted | Told | Refused


def judge(asked: Asked, said: Mapping[str, Said], approved: Sequence[Rule], *, now_ms: int) -> Verdict:
    """One no is enough; a yes must come for every ask of the call, or a rule that makes it needless."""
    replies = {ask.ask_id: said[ask.ask_id].reply for ask in asked.asks if ask.ask_id in said}
    question = next((ask for ask in asked.asks if ask.questions), None)
    if question is not None and question.permission == PLAN_EXIT and question.ask_id in replies:
        return _on_leaving(replies[question.ask_id], asked)
    for ask in asked.asks:
        reply = replies.get(ask.ask_id)
        if reply is not None and reply.choice == "reject":
            return Told(_error(f"Not done: a person said: {reply.message}", asked)) if reply.message else Refused(ask)
    missing = tuple(ask for ask in asked.asks if ask.ask_id not in replies and not _is_covered(ask, approved))
    if missing:
        return Late(_error(TIMED_OUT, asked), missing) if now_ms >= asked.until_ms else Waits(missing)
    if question is not None:
        return Told(answers_of(question, replies[question.ask_id], title=asked.title))
    return Granted(asked.shown)


def _on_leaving(reply: Reply, asked: Asked) -> Verdict:
    words = [answer.strip() for answer in (reply.answers[0] if reply.answers else ())]
    if reply.choice != "reject" and words in ([], [YES]):
        return Told(ToolResult("The plan was approved.", asked.title))
    comment = reply.message or ", ".join(word for word in words if word != NO)
    return Told(_error(f"The plan was not approved{f': {comment}' if comment else ''}. Refine it.", asked))


def answers_of(ask: AskOpened, reply: Reply, *, title: str) -> ToolResult:
    """What people answered to questions, in their order, as JSON for the model and for programs."""
    given = dict(enumerate(reply.answers))
    answers = [
        {"question": question.question, "answer": list(given.get(number, ())) or [NO_ANSWER]}
        for number, question in enumerate(ask.questions)
    ]
    return ToolResult(json.dumps(answers, ensure_ascii=False), title, metadata={"answers": answers})


def answered_events(asked: Asked, said: Mapping[str, Said]) -> list[AskAnswered]:
    """How each ask of a call was settled."""
    return [_answered(ask, said.get(ask.ask_id)) for ask in asked.asks]


def _answered(ask: AskOpened, said: Said | None) -> AskAnswered:
    if said is None:
        return AskAnswered(ask_id=ask.ask_id, answer="none")
    words = said.reply.message or "; ".join(", ".join(answer) for answer in said.reply.answers)
    return AskAnswered(ask_id=ask.ask_id, answer=said.reply.choice, by=said.by, comment=words)


def _is_covered(ask: AskOpened, approved: Sequence[Rule]) -> bool:
    return bool(ask.patterns) and evaluate(approved, ask.permission, ask.patterns).action is Action.ALLOW


def _error(text: str, asked: Asked) -> ToolResult:
    return ToolResult(text, asked.title, is_error=True)
