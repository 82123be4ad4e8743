"""What Muster says in a session: to its model, and to those who watch."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from envelope.events import MessageAdded, TurnFinished

from .history import say
from .means import Loop
from .session import Session


def tell(session: Session, loop: Loop, text: str) -> Session:
    """A word to the model, which people see, too."""
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)


@contextmanager
def cut_off_is_told(loop: Loop, turn: int) -> Generator[None]:
    """A turn that the task's end cuts off has an end of its own; one that another attempt makes again has none yet."""
    try:
        yield
    except asyncio.CancelledError:
        if loop.is_stopped():
            loop.emit(TurnFinished(turn=turn, finish_reason="cancelled"))
        raise
