"""Compaction as a step of a session: noted as due, stored so, then done.

What dies in the middle of it is done by the next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import Compacted, Event, WarningRaised

from ..delivery.failures import OF_MODELS
from ..llm.base import Completed, Failed, Failure, ToolSpec
from ..llm.files import sent_files
from .bound import Size, request_tokens, tool_tokens
from .budget import Stop, is_last_turn
from .compaction import (
    Compaction,
    is_prompt,
    message_tokens,
    should_compact,
    tail_start,
    usable_tokens,
)
from .history import failed, final_text, with_prompts
from .means import Loop
from .paying import paid_call, stopped
from .policy import WindowPolicy
from .session import Counted, Due, Outcome, Session
from .shown import shown
from .summary import NotesWanted, go_on, summary_request
from .telling import tell

# What a person says to a session to have it compacted; it is no word to the model.
COMMAND = "/compact"
# What another provider's model may do better; a wrong request it would get, too.
ANOTHERS_TURN = frozenset({Failure.UNAVAILABLE, Failure.RATE_LIMIT, Failure.CONTENT_FILTER})
MODEL_FALLBACK, COMPACTION_FAILED = "model_fallback", "compaction_failed"
NO_SUMMARY = "the model gave no summary of what has happened so far"
REFUSALS = ("refusal", "content_filter")
# A compaction that is due again after a single reply has gained nothing; another one would not, either.
REPLIES_BETWEEN = 2
# A model that gives no summary so often in a row is not asked by itself any more, until it refuses the history.
MAX_FAILED = 3
# What a turn would fail of, too: the provider is not there, or takes no request of ours.
ANY_CALLS_END = frozenset({Failure.UNAVAILABLE, Failure.RATE_LIMIT, Failure.AUTH, Failure.UNKNOWN_MODEL})


def is_request(text: str) -> bool:
    """Does a person ask for a compaction with these words?"""
    return text.strip() == COMMAND


def compaction_requested(session: Session) -> Session:
    """The session with a compaction as its next step; one that has its answer keeps that."""
    return session if session.due is Due.OVERFLOW else session.model_copy(update={"due": Due.ASKED})


def only_compacted(session: Session) -> Session:
    """A session that is opened again for nothing but a compaction."""
    return compaction_requested(session.model_copy(update={"outcome": Outcome(text=final_text(session))}))


def with_words(session: Session, prompts: Sequence[str]) -> Session:
    """The session with what people said; a `/compact` among it is a request."""
    words = [prompt for prompt in prompts if not is_request(prompt)]
    session = with_prompts(session, words)
    return session if len(words) == len(prompts) else compaction_requested(session)


def is_over(session: Session) -> bool:
    """Is nothing left to do? What a person asked for is done after the answer, too."""
    outcome = session.outcome
    return outcome is not None and (outcome.error is not None or session.due is not Due.ASKED)


def comes_first(session: Session) -> bool:
    """Is a compaction the next step? The last turn is kept for the model's closing words."""
    return session.due is not None and (session.outcome is not None or not is_last_turn(session))


def measured(session: Session, usage: Usage, tools: Sequence[ToolSpec], policy: WindowPolicy) -> Session:
    """The session after a reply: what its window holds now is known, and whether that is too much."""
    counted = Counted(
        messages=len(session.messages),
        tokens=usage.total_tokens,
        tool_tokens=tool_tokens(tools),
        files=tuple(file.blob for file in sent_files(shown(session), policy.sees)),
    )
    is_full = should_compact(usage, policy.limits, auto=policy.auto, reserved=policy.reserved)
    may_gain = _replies_since(session) >= REPLIES_BETWEEN and session.failed_compactions < MAX_FAILED
    is_due = is_full and may_gain and session.due is None
    known = counted if usage.input_tokens else None
    return session.model_copy(update={"counted": known} | ({"due": Due.FULL} if is_due else {}))


def overflowed(session: Session, failure: Failed) -> Session:
    """The session after its request was refused for its length; over, when it was compacted just before."""
    if session.compaction and not any(_moves_on(session)):
        return _too_long(
            session, f"the request does not fit the model's window, even after a compaction: {failure.message}"
        )
    return session.model_copy(update={"due": Due.OVERFLOW})


def handed_on(session: Session, failure: Failed, loop: Loop) -> Session:
    """The session with another model, which goes on where this one failed; it gets what was said, and no thoughts."""
    words = f"{session.model} does not go on: {failure.message}; {loop.fallback} does"
    loop.emit(WarningRaised(message=words, code=MODEL_FALLBACK))
    return session.model_copy(update={"model": loop.fallback, "counted": None})


async def compact(session: Session, loop: Loop) -> Session:
    """The session with a summary in the place of all but its newest messages: one model call, paid like any other.

    Where that fails the step is over all the same: it is told, and the session goes on where it can.
    """
    earlier = session.compaction
    begin = earlier.kept_from if earlier else 0
    usable = usable_tokens(loop.policy.limits, reserved=loop.policy.reserved)
    kept_from = tail_start(session.messages, usable, begin=begin)
    if kept_from == begin:  # nothing has come since the last one
        return session.model_copy(update={"due": None})
    notes, wanted = earlier.summary if earlier else "", await loop.policy.wanted(NotesWanted())
    asked = summary_request(loop.policy.prompt, session.messages[begin:kept_from], notes, wanted)
    tokens = request_tokens(asked)
    paid = await paid_call(session, asked, (), loop, size=Size(tokens, tokens), tell=_unheard)
    if isinstance(paid, Stop):
        return unpaid(session, paid, loop)
    if isinstance(paid.reply, Failed) or not _is_summary(paid.reply):
        return _no_summary(paid.session, paid.reply, loop, is_all=opened_for_it(session))
    return _compacted(paid.session, paid.reply.text.strip(), kept_from, loop)


def _compacted(session: Session, summary: str, kept_from: int, loop: Loop) -> Session:
    compaction = Compaction(summary=summary, kept_from=kept_from, made_at=len(session.messages))
    done = {"compaction": compaction, "due": None, "counted": None, "failed_compactions": 0}
    after = session.model_copy(update=done)
    if session.outcome is None:
        word = go_on(session.messages, overflowed=_says_prompt_again(session, kept_from))
        after = tell(after, loop, word.content)
    loop.emit(Compacted(tokens_before=_tokens(session), tokens_after=_tokens(after)))
    return after


def _says_prompt_again(session: Session, kept_from: int) -> bool:
    """After an overflow, or when nobody has answered it yet; unless it stands in the tail word by word."""
    unanswered = session.due is Due.OVERFLOW or is_prompt(session.messages[-1])
    return unanswered and not any(is_prompt(message) for message in session.messages[kept_from:])


def _is_summary(reply: Completed) -> bool:
    """All that came before is to stand in it: what a model says before a call, or says no with, would be its loss."""
    return bool(reply.text.strip()) and not reply.tool_calls and reply.finish_reason not in REFUSALS


def _no_summary(session: Session, reply: Completed | Failed, loop: Loop, *, is_all: bool) -> Session:
    failure = Failed(Failure.CONTENT_FILTER, NO_SUMMARY) if isinstance(reply, Completed) else reply
    is_refusal = isinstance(reply, Failed) or reply.finish_reason in REFUSALS
    if loop.fallback and is_refusal and failure.failure in ANOTHERS_TURN:
        return handed_on(session, failure, loop)
    due, often = session.due, session.failed_compactions + 1
    session = session.model_copy(update={"due": None, "failed_compactions": often})
    if due is Due.OVERFLOW and failure.failure is Failure.OVERFLOW:
        return _too_long(
            session, f"what has happened does not fit the model's window, not even to be summarised: {failure.message}"
        )
    if due is not Due.OVERFLOW and failure.failure not in ANY_CALLS_END and not is_all:
        return _goes_on(session, failure.message, loop)
    code, hint = (ErrorCode.MODEL_FAILED, "") if isinstance(reply, Completed) else OF_MODELS[failure.failure]
    return failed(session, code, f"the history could not be summarised: {failure.message}", hint)


def unpaid(session: Session, stop: Stop, loop: Loop) -> Session:
    """The session where a grant ends before its next step; what it has answered, no compaction after it takes away."""
    if session.outcome is None or opened_for_it(session):
        return stopped(session, stop, loop)
    return _goes_on(session.model_copy(update={"due": None}), stop.detail, loop)


def opened_for_it(session: Session) -> bool:
    """Is the compaction all that the session was opened for?"""
    return session.outcome is not None and session.turn == 0


def _goes_on(session: Session, why: str, loop: Loop) -> Session:
    words = f"the history was not summarised, and stays as it is: {why}"
    loop.emit(WarningRaised(message=words, code=COMPACTION_FAILED))
    return session


def _too_long(session: Session, detail: str) -> Session:
    code, hint = OF_MODELS[Failure.OVERFLOW]
    return failed(session, code, detail, hint)


def _moves_on(session: Session) -> list[bool]:
    made_at = session.compaction.made_at if session.compaction else 0
    return [message.role == "assistant" or is_prompt(message) for message in session.messages[made_at:]]


def _replies_since(session: Session) -> int:
    """The last compaction; more than enough when there was none."""
    if session.compaction is None:
        return REPLIES_BETWEEN
    return sum(message.role == "assistant" for message in session.messages[session.compaction.made_at :])


def _tokens(session: Session) -> int:
    return sum(map(message_tokens, shown(session)))


def _unheard(event: Event) -> None:
    """Notes for a model are no words for people."""
