"""A session beside its subagents in the background: it keeps their ids, and hears of the end of each once.

The word and the shorter list of ids are one value, which is stored as a whole: whoever resumes the session has heard
both or neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envelope.messages import TaskResult
from transport.base import Wait

from ..tools.background import TOLD, Background, started_by
from ..tools.base import ToolContext, ToolResult
from ..tools.task import TASK, result_text
from .calls import Answered
from .history import say
from .session import Session


def with_started(session: Session, answers: Sequence[Answered]) -> Session:
    """The session with what its calls have left in the background; again with the same answers, it is the same."""
    results = [one.result for one in answers if one.call.name == TASK and isinstance(one.result, ToolResult)]
    children = [child for result in results if (child := started_by(result))]
    every = {child.task_id: child for child in (*session.background, *children)}
    return session.model_copy(update={"background": tuple(every.values())}) if children else session


def waits_for_children(session: Session) -> bool:
    """Has the model said all that it can before it hears of its subagents? An agent that hands over waits for nobody.
    Where the work has failed nobody hears of them any more, and the queue stops them."""
    outcome = session.outcome
    return bool(session.background) and outcome is not None and not (outcome.error or outcome.next_agent)


def background_wait(session: Session) -> Wait:
    """The first end of one of them is news, and so is a person's word."""
    return Wait(children=frozenset(child.task_id for child in session.background), first=True)


async def words_of_children(session: Session, context: ToolContext) -> Mapping[str, str]:
    """Task → what the model is told of its end, for those that have ended; their patches are in the workspace then.

    A session that has nothing else to do waits a little.
    """
    if not session.background:
        return {}
    look = context.children.ended if waits_for_children(session) else context.children.ended_by_now
    results = await look([child.task_id for child in session.background])
    if any(result.patch and result.patch.files for result in results.values()):
        context.may_have_written = True
    return {
        child.task_id: _word(child, results[child.task_id]) for child in session.background if child.task_id in results
    }


def with_words_of_children(session: Session, words: Mapping[str, str]) -> Session:
    """The session after it was told; one that had its answer goes on with it."""
    for word in words.values():
        session = say(session, word)
    left = tuple(child for child in session.background if child.task_id not in words)
    return session.model_copy(update={"background": left, "outcome": None, "undone": None}) if words else session


def _word(child: Background, result: TaskResult) -> str:
    return f"{TOLD}\n{result_text(result, agent=child.agent)}"
