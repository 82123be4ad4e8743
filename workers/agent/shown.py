"""What a model is shown of a session: its window, with old outputs cleared where that is wanted. Pure."""

from __future__ import annotations

from ..llm.base import ChatMessage
from .compaction import window
from .pruning import CLEARED, prune
from .session import Session


def shown(session: Session) -> list[ChatMessage]:
    return window(_with_cleared(session), session.compaction)


def pruned(session: Session) -> Session:
    """The session with old outputs noted as cleared, when enough of them can go.

    What was cleared once stays so: a boundary that moved with every turn would change the start of every request.
    """
    begin = session.compaction.kept_from if session.compaction else 0
    before = _with_cleared(session)[begin:]
    after = prune(before)
    fresh = [begin + n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
    return session.model_copy(update={"cleared": (*session.cleared, *fresh)}) if fresh else session


def _with_cleared(session: Session) -> tuple[ChatMessage, ...]:
    if not session.cleared:
        return session.messages
    cleared = frozenset(session.cleared)
    return tuple(
        message.model_copy(update={"content": CLEARED, "files": ()}) if index in cleared else message
        for index, message in enumerate(session.messages)
    )
