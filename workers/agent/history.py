"""A session: how it begins, grows, is mended after an interruption, and ends. Pure, but for the time of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.messages import ToolCallSummary

from ..agents.base import Agent
from ..clock import now_ms
from ..llm.base import ChatMessage, Completed, FilePart, Finish, FinishReason
from ..tools.background import stopped_note
from ..tools.base import ToolResult
from .budget import with_turn_limit
from .calls import Answered
from .finish import finish_reason
from .session import Outcome, Session

THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
CLOSING = (
    "This is your last turn, and no tools are left. Say what you did, with evidence, what you found, and what is still "
    "to do."
)
EMPTY = "Your reply was empty. Go on with the task, or give your answer if it is done."
CUT_OFF = "Your reply was cut off at the output limit. Go on exactly where it stopped; repeat nothing."
THOUGHTS_CUT_OFF = (
    "Your thoughts used up the output limit before you said anything. Think in smaller steps: call a tool, or answer"
    " now."
)
INTERRUPTED = (
    "Interrupted: the worker stopped while this call was running, and it was not run again. It may have taken effect; "
    "look before you repeat it."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a task begins with: words, and files that the model is shown if it can see them."""

    text: str
    files: tuple[FilePart, ...] = ()


def open_session(agent: Agent, *, model: str, system: str, prompt: str | Prompt, budget: Budget) -> Session:
    """A session before its first turn. `system` is the whole system prompt (see `prompt.py`)."""
    return Session(
        agent=agent.name,
        model=model,
        messages=(ChatMessage(role="system", content=system), _prompted(prompt)),
        read_digests={},
        budget=with_turn_limit(budget, agent.max_turns),
    )


def reopen_session(session: Session, agent: Agent, *, model: str, prompt: str | Prompt, budget: Budget) -> Session:
    """An ended session with a new prompt (empty: with none): its history and workspace go on, what it spends is counted
    from nothing."""
    mended = resumed(_closed(session))
    if session.background:
        mended = say(mended, stopped_note(session.background))
    is_handed_over = session.outcome is not None and session.outcome.next_agent == agent.name
    said = [_prompted(prompt).model_copy(update={"synthetic": is_handed_over})] if prompt else []
    return Session(
        agent=agent.name,
        previous_agent=session.agent,
        model=model,
        messages=(*mended.messages, *said),
        read_digests=mended.read_digests,
        cwd=mended.cwd,
        changes=mended.changes,
        approved_in=mended.approved_in,
        budget=with_turn_limit(budget, agent.max_turns),
        compaction=mended.compaction,
        due=mended.due,
        cleared=mended.cleared,
        withheld=mended.withheld,
        waypoints=mended.waypoints,
        given_plan=mended.given_plan,
    )


def resumed(session: Session) -> Session:
    """The session with every call of its last turn answered, as a model provider demands.

    A call without an answer was under way when its worker died. Tools are not run again on a guess. A turn that was
    left open on purpose stays so: what is missing there is the answer of subagents.
    """
    if session.open_turn:
        return session
    said = session.messages
    # only of the last reply with calls: some servers number those of each reply anew
    last = next((index for index in reversed(range(len(said))) if said[index].tool_calls), len(said))
    answered = {message.tool_call_id for message in said[last:] if message.role == "tool"}
    open_calls = [call for message in said[last : last + 1] for call in message.tool_calls if call.id not in answered]
    notes = [
        ChatMessage(role="tool", tool_call_id=call.id, name=call.name, content=INTERRUPTED, is_error=True)
        for call in open_calls
    ]
    return _extended(session, notes)


def _prompted(prompt: str | Prompt) -> ChatMessage:
    prompt = Prompt(prompt) if isinstance(prompt, str) else prompt
    return ChatMessage(role="user", content=prompt.text, files=prompt.files)


def _closed(session: Session) -> Session:
    """The session without an open turn: nobody waits any more for what a task waited for that was stopped."""
    interrupted = ToolResult(INTERRUPTED, is_error=True)
    answers = [replace(answer, result=interrupted) if answer.waits else answer for answer in session.open_turn]
    return with_answers(session, answers, session.read_digests)


def with_reply(session: Session, reply: Completed, *, keep_calls: bool) -> Session:
    """The session after a model call. A reply without words and calls leaves no message, for providers refuse a history
    with one in; but what their own tools did in it goes back, and so does one that was paused."""
    calls = reply.tool_calls if keep_calls else ()
    message = ChatMessage(
        role="assistant",
        content=reply.text,
        reasoning=reply.reasoning,
        tool_calls=calls,
        # a part of a reply is no reply that its provider knows
        provider_items=reply.provider_items if keep_calls or not reply.tool_calls else None,
        finish=Finish(reason=finish_reason(reply), at_ms=now_ms()),
        agent=session.agent,
        retries=reply.retries,
    )
    return _extended(session, [message] if calls or reply.text.strip() or _holds_more(reply) else [])


def _holds_more(reply: Completed) -> bool:
    """Something beside thoughts: a reply of these alone is none. An item without a type is laid over words and calls
    (`llm.openai_items`), and says nothing where there are none."""
    items = reply.provider_items.items if reply.provider_items else ()
    return any("type" in item and item["type"] not in THOUGHTS for item in items)


def with_open_turn(session: Session, answers: Sequence[Answered], read_digests: Mapping[str, str]) -> Session:
    """The session in the middle of a turn, with what came of its calls so far."""
    return session.model_copy(update={"open_turn": tuple(answers), "read_digests": dict(read_digests)})


def with_answers(
    session: Session,
    answers: Sequence[Answered],
    read_digests: Mapping[str, str],
    *,
    finish: FinishReason | None = None,
) -> Session:
    """The session after its tool calls, all of which have a result; what did not run is told to the model and counted
    nowhere. `finish`: how the turn ended, when it ended with these."""
    whole = [(answer, answer.result) for answer in answers if isinstance(answer.result, ToolResult)]
    notes = [
        ChatMessage(
            role="tool",
            tool_call_id=answer.call.id,
            name=answer.call.name,
            content=result.content,
            is_error=result.is_error,
            files=result.files,
            metadata=dict(result.metadata),
        )
        for answer, result in whole
    ]
    if finish and notes:
        notes[-1] = notes[-1].model_copy(update={"finish": Finish(reason=finish, at_ms=now_ms())})
    summaries = tuple(
        ToolCallSummary(
            tool=answer.call.name, title=result.title, is_error=result.is_error, duration_ms=answer.duration_ms
        )
        for answer, result in whole
        if answer.ran
    )
    ended = {"tool_calls": session.tool_calls + summaries, "read_digests": dict(read_digests), "open_turn": ()}
    return _extended(session, notes).model_copy(update=ended)


def with_prompts(session: Session, prompts: Sequence[str]) -> Session:
    """The session with what people said; one that had its outcome goes on."""
    messages = [ChatMessage(role="user", content=prompt) for prompt in prompts]
    return _extended(session, messages).model_copy(update={"outcome": None, "undone": None}) if messages else session


def say(session: Session, text: str) -> Session:
    """The session with a word from Muster to the model."""
    return _extended(session, [ChatMessage(role="user", content=text, synthetic=True)])


def was_told(session: Session, text: str) -> bool:
    """Is this the last thing that Muster said, with nothing after it?"""
    last = session.messages[-1]
    return last.synthetic and last.content == text


def final_text(session: Session) -> str:
    """The model's last words since the last prompt; parts of one answer that was cut off are joined again."""
    parts: list[str] = []
    for message in reversed(session.messages):
        if message.role == "assistant":
            parts.append(message.content)
        elif (parts and message.content != CUT_OFF) or (message.role == "user" and not message.synthetic):
            break
    return "".join(reversed(parts))


def finished(session: Session, structured: dict[str, Any] | None = None, *, next_agent: str = "") -> Session:
    outcome = Outcome(text=final_text(session), structured=structured, next_agent=next_agent)
    return session.model_copy(update={"outcome": outcome})


def failed(session: Session, code: ErrorCode, detail: str, hint: str = "") -> Session:
    """Over, with an error; the model's last words are kept as what there is of an answer."""
    outcome = Outcome(text=final_text(session), error=code, detail=detail, hint=hint)
    return session.model_copy(update={"outcome": outcome})


def _extended(session: Session, messages: Sequence[ChatMessage]) -> Session:
    return session.model_copy(update={"messages": (*session.messages, *messages)}) if messages else session
