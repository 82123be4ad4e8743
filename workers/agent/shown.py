"""What a model is shown of a session: its window, with old outputs cleared where that is wanted. Pure."""

from __future__ import annotations

from ..llm.base import ChatMessage
from .compaction import window
from .pruning import CLEARED, prune
from .session import Session

# In the place of a PDF; who reads it again, when there is more money, may see it.
WITHHELD = "is not shown: the budget has less left than such a file can cost; use commands to find out what is in it"


def shown(session: Session) -> list[ChatMessage]:
    return window(messages_as_shown(session), session.compaction)


def pruned(session: Session) -> Session:
    """The session with old outputs noted as cleared, when enough of them can go.

    What was cleared once stays so: a boundary that moved with every turn would change the start of every request.
    """
    begin = session.compaction.kept_from if session.compaction else 0
    before = messages_as_shown(session)[begin:]
    after = prune(before)
    fresh = [begin + n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
    return session.model_copy(update={"cleared": (*session.cleared, *fresh)}) if fresh else session


def messages_as_shown(session: Session) -> tuple[ChatMessage, ...]:
    """All of the session's messages, without what is cleared or withheld."""
    if not session.cleared and not session.withheld:
        return session.messages
    cleared, withheld = frozenset(session.cleared), frozenset(session.withheld)
    return tuple(
        message.model_copy(update={"content": CLEARED, "files": ()})
        if index in cleared
        else _without_documents(message)
        if index in withheld
        else message
        for index, message in enumerate(session.messages)
    )


def _without_documents(message: ChatMessage) -> ChatMessage:
    left_out = [
        f"({file.name or 'a file'} ({file.media_type}) {WITHHELD})" for file in message.files if file.kind == "pdf"
    ]
    kept = tuple(file for file in message.files if file.kind != "pdf")
    return message.model_copy(update={"content": "\n".join((message.content, *left_out)), "files": kept})
