"""The agent loop. A session is all the state there is: a step takes one and makes the next.

while no reason to stop:
    hear what people said    prompts that came in meanwhile
    ask the model            streamed; retried by the model's own wrapper; paid for
    run its tool calls       in parallel where that is safe
    save                     checkpoint, and send what was reported
    compact                  when the window fills: a step of its own, stored before it begins

A turn whose subagents take long, or that waits for people, is left open: the loop ends, and goes on in another attempt
(see `session.py`).
"""

from __future__ import annotations

from envelope.events import MessageAdded

from ..llm.base import Failed
from .acting import act
from .background import with_words_of_children
from .bound import new_documents, window_size
from .budget import Stop, is_last_turn, why_stop
from .calls import offer
from .circles import circle_ended
from .compacting import comes_first, compact, is_over, measured, unpaid, with_words
from .concluding import conclude, model_failed
from .history import CLOSING, resumed, was_told, with_reply
from .means import Loop
from .paying import paid_call, stopped
from .reminders import reminded
from .session import Session
from .shown import shown
from .structured import only_answers, wants_form
from .telling import half_answer_is_kept, tell, withheld
from .traced import turn_span


async def run(session: Session, loop: Loop) -> Session:
    """From wherever the session stands to its outcome, to where it waits (for others, for money), or to where another
    model is to go on; saved after every turn."""
    model = session.model
    session = await _heard(resumed(session.model_copy(update={"waits_at_microusd": None})), loop)
    while not is_over(session):
        session = await loop.save(await _advance(session, loop))
        if session.open_turn or session.waits_at_microusd is not None or session.model != model:
            break
        session = await _heard(session, loop)
    return session


async def _advance(session: Session, loop: Loop) -> Session:
    """The rest of a turn that was left open, another turn, or the end for want of what another one needs."""
    if session.open_turn:
        with turn_span(session.turn):
            return await act(session, loop)
    if stop := why_stop(session, exhausted=loop.exhausted()):
        return unpaid(session, stop, loop)
    if comes_first(session):
        return await compact(session, loop)
    with turn_span(session.turn + 1):
        return await step(session, loop)


async def step(session: Session, loop: Loop) -> Session:
    """One model call, and the tool calls that it asks for."""
    closing = is_last_turn(session)
    session = reminded(loop.policy.pruned(session))
    session = tell(session, loop, CLOSING) if closing and not was_told(session, CLOSING) else session
    # A last turn offers the same tools, and allows none: a request goes on starting with the same bytes.
    tools, choice = offer(loop.tools), "none" if closing and not wants_form(loop.tools) else "auto"
    size = window_size(session, tools, loop.policy)
    async with half_answer_is_kept(session, loop) as heard:
        paid = await paid_call(session, shown(session), tools, heard, choice, size=size, tell=heard.emit)
    if isinstance(paid, Stop):
        documents = new_documents(session, loop.policy)
        return withheld(session, documents, paid, loop) if documents else stopped(session, paid, loop)
    session, reply = paid.session, paid.reply
    if isinstance(reply, Failed):
        return model_failed(session, reply, loop)
    acts = bool(reply.tool_calls) and (not closing or only_answers(reply.tool_calls, loop.tools))
    session = measured(with_reply(session, reply, keep_calls=acts), reply.usage, tools, loop.policy)
    if acts:
        return await act(session, loop)
    # after a closing turn: its turns are used up, and that is what `run` will say
    return circle_ended(session) if closing else conclude(session, reply, loop)


async def _heard(session: Session, loop: Loop) -> Session:
    """The session with what subagents and people have said meanwhile; one that had ended well goes on with it.

    Nothing may stand between calls and their answers: an open turn hears nothing.
    """
    if session.open_turn or (session.outcome is not None and session.outcome.error is not None):
        return session
    words = await loop.told(session)
    for word in words.values():
        loop.emit(MessageAdded(role="user", text=word, synthetic=True))
    session = with_words_of_children(session, words)
    prompts = await loop.hear()
    for prompt in prompts:
        loop.emit(MessageAdded(role="user", text=prompt))
    return with_words(session, prompts)
