"""A word from Muster to the model, which people see, too."""

from __future__ import annotations

from envelope.events import MessageAdded

from .history import say
from .means import Loop
from .session import Session


def tell(session: Session, loop: Loop, text: str) -> Session:
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)
