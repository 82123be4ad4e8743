"""What Muster says in a session: to its model, and to those who watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

from envelope.events import Event, MessageAdded, RetryScheduled, TextDelta, TurnFinished, WarningRaised
from sandbox.errors import SandboxError

from ..clock import now_ms
from ..llm.base import ChatMessage, Finish
from .account import Account
from .budget import Stop
from .history import say
from .means import Loop
from .session import Session

DOCUMENT_WITHHELD = "document_withheld"
STOPPED_HERE = "The task was stopped while you were writing this; what you had not said is lost."


def tell(session: Session, loop: Loop, text: str) -> Session:
    """A word to the model, which people see, too."""
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)


def withheld(session: Session, documents: Sequence[int], stop: Stop, loop: Loop) -> Session:
    """The session without the PDFs of these messages, for which there is no money: what is in them, a command tells."""
    named = [file.name or "a file" for n in documents for file in session.messages[n].files if file.kind == "pdf"]
    window = loop.policy.limits.input or loop.policy.limits.context
    size = f"the model's whole window of {window} tokens" if window else "the largest of all windows"
    spent, allowed = stop.event.spent, stop.event.allowed
    whose = "--tenant TENANT" if stop.event.whose == "tenant" else "TASK"
    tells = "" if window else "say the model's window in MUSTER_MODEL_LIMITS, or "
    loop.emit(
        WarningRaised(
            message=f"{', '.join(named)} is not shown to the model: a PDF can fill {size}, and "
            f"${spent / 1e6:.4f} of the {stop.event.whose}'s ${allowed / 1e6:.4f} are spent",
            hint=f"{tells}`muster budget raise {whose} --to USD`, and have the file read again",
            code=DOCUMENT_WITHHELD,
        )
    )
    return session.model_copy(update={"withheld": (*session.withheld, *documents)})


@asynccontextmanager
async def half_answer_is_kept(session: Session, loop: Loop) -> AsyncGenerator[Loop]:
    """For the model call of a turn: where the task's end cuts it off, what it had said of its answer is stored. It is
    no answer, and who goes on in the session is told so."""
    said: list[str] = []

    def emit(event: Event) -> None:
        if isinstance(event, TextDelta):
            said.append(event.text)
        loop.emit(event)

    def on_retry(event: RetryScheduled) -> None:
        said.clear()
        loop.model.on_retry(event)

    try:
        yield replace(loop, emit=emit, model=replace(loop.model, on_retry=on_retry))
    except asyncio.CancelledError:
        if loop.is_stopped() and (half := "".join(said)).strip():
            finish = Finish(reason="cancelled", at_ms=now_ms())
            message = ChatMessage(role="assistant", content=half, finish=finish, agent=session.agent)
            kept = session.model_copy(update={"turn": session.turn + 1, "messages": (*session.messages, message)})
            with suppress(SandboxError):  # what its work has come to cannot be seen any more
                await loop.save(say(kept, STOPPED_HERE))
        raise


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
