"""What Muster says in a session: to its model, and to those who watch."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from envelope.events import MessageAdded, TurnFinished

from .account import Account
from .history import say
from .means import Loop
from .session import Session


def tell(session: Session, loop: Loop, text: str) -> Session:
    """A word to the model, which people see, too."""
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)


@contextmanager
def cut_off_is_told(loop: Loop, turn: int, account: Account | None = None) -> Generator[None]:
    """A turn that the task's end cuts off has an end of its own, and a price if it had begun to answer; one that
    another attempt makes again has none yet."""
    try:
        yield
    except asyncio.CancelledError:
        if loop.is_stopped():
            loop.emit(_cut_off(turn, account))
        raise


def _cut_off(turn: int, account: Account | None) -> TurnFinished:
    if account is None:  # it had its reply, and is paid
        return TurnFinished(turn=turn, finish_reason="cancelled")
    account.close()
    usage, cost = account.usage, account.cost_microusd
    return TurnFinished(turn=turn, finish_reason="cancelled", usage=usage, cost_microusd=cost)
