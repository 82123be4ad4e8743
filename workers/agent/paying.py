"""A model call as it is paid: money is set aside before it, and what it cost is charged after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envelope.events import Event, TurnFinished, TurnStarted
from envelope.tracing.names import CHAT
from envelope.tracing.spans import span

from ..llm.base import ChatMessage, Completed, Failed, ToolChoice, ToolSpec
from .account import Account
from .asking import ask
from .bound import Size
from .budget import Stop, money_left
from .finish import finish_reason
from .history import failed
from .means import Loop
from .session import Session
from .telling import cut_off_is_told
from .traced import chat_attributes, tell_chat


@dataclass(frozen=True, slots=True)
class Paid:
    """What came of a call, and the session with its turn, usage and cost counted."""

    session: Session
    reply: Completed | Failed


async def paid_call(
    session: Session,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    loop: Loop,
    tool_choice: ToolChoice = "auto",
    *,
    size: Size,
    tell: Callable[[Event], None],
) -> Paid | Stop:
    """One turn's model call of that size; `tell` hears it stream. Tries that broke off are paid, too.

    A stop: there is no money for it, and nothing has happened.
    """
    held = await loop.till.reserve(size.most, money_left(session))
    if isinstance(held, Stop):
        return held
    turn = session.turn + 1
    loop.emit(TurnStarted(turn=turn, model=loop.model.name, window_tokens=loop.policy.limits.context))
    # where money is set aside, what broke off costs what it can have cost
    account = Account(loop.till, loop.price, size.most if held else size.tokens, held)
    with span(CHAT, chat_attributes(loop.model.name), model=loop.model.name) as call:
        with cut_off_is_told(loop, turn, account):
            reply = await ask(replace(loop.model, lost=account), messages, tools, tell, tool_choice)
        if isinstance(reply, Completed):
            account.answered(reply)
        account.close()
        usage, cost = account.usage, account.cost_microusd
        tell_chat(call, messages, reply, usage, cost)
    loop.emit(TurnFinished(turn=turn, finish_reason=finish_reason(reply), usage=usage, cost_microusd=cost))
    counted = {"turn": turn, "usage": session.usage + usage, "cost_microusd": session.cost_microusd + cost}
    return Paid(session.model_copy(update=counted), reply)


def stopped(session: Session, stop: Stop, loop: Loop) -> Session:
    """The session at the end of a grant: over, or waiting for a higher one."""
    loop.emit(stop.event)
    if stop.waits_at_microusd is not None:
        waits = {"waits_at_microusd": stop.waits_at_microusd, "waits_for_tenant": stop.waits_for_tenant}
        return session.model_copy(update=waits)
    return failed(session, stop.code, stop.detail, stop.hint)
