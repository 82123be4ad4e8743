"""Why a session must stop. Pure: looks at what was spent and what was granted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.events import BudgetReached

from .session import Session

# A loop that nobody limited must end some day; the longest useful runs that users report stay below.
DEFAULT_MAX_TURNS = 100

Limit = Literal["cost", "tokens", "turns", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Stop:
    """A grant that is used up, and the event that tells of it."""

    event: BudgetReached
    code: ErrorCode
    detail: str
    hint: str
    waits_at_microusd: int | None = None  # the trace's cap, where somebody can raise it
    waits_for_tenant: bool = False  # it is the tenant's


def to_go_on(whose: str) -> str:
    """What helps a task that has ended for want of money, a "trace"'s or a "tenant"'s; how much, a person says.

    What resumes it is a trace of its own: a tenant's cap holds there, too, and no other trace's does.
    """
    if whose == "tenant":
        return "`muster budget raise --tenant TENANT --to USD`, then `muster task resume TASK`"
    return "`muster task resume TASK --budget USD`"


def money_left(session: Session) -> int | None:
    """Of the session's own budget, in micro-dollars; None: it has no limit of its own."""
    allowed = session.budget.max_cost_microusd
    return None if allowed is None else allowed - session.cost_microusd


def why_stop(session: Session, *, exhausted: str) -> Stop | None:
    """The first grant that leaves nothing for another turn; None while the session may go on. `exhausted`: whose money
    is all spent, the "trace"'s or the "tenant"'s, if it is.

    Tokens are known after a call only, so the call that reaches a limit is paid and is the last. Of money no call is
    made that what is left cannot pay (`paying.py`).
    """
    budget, spent = session.budget, session.usage.total_tokens
    if budget.max_turns is not None and session.turn >= budget.max_turns:
        return _stop("turns", session.turn, budget.max_turns, ErrorCode.TURN_LIMIT)
    if budget.max_tool_calls is not None and len(session.tool_calls) >= budget.max_tool_calls:
        return _stop("tool_calls", len(session.tool_calls), budget.max_tool_calls)
    if budget.max_tokens is not None and spent >= budget.max_tokens:
        return _stop("tokens", spent, budget.max_tokens)
    if budget.max_cost_microusd is not None and session.cost_microusd >= budget.max_cost_microusd:
        return _stop("cost", session.cost_microusd, budget.max_cost_microusd)
    if exhausted:
        spent_microusd = session.cost_microusd
        event = BudgetReached(limit="cost", spent=spent_microusd, allowed=spent_microusd, whose=exhausted)
        return Stop(event, ErrorCode.BUDGET, f"the {exhausted}'s money is spent", to_go_on(exhausted))
    return None


def is_last_turn(session: Session) -> bool:
    """Is the coming turn the last that the budget allows, or that a model in a circle has? It is then a closing one,
    without tools."""
    if session.circling:
        return True
    return session.budget.max_turns is not None and session.turn + 1 >= session.budget.max_turns


def calls_left(session: Session) -> int | None:
    """How many tool calls may still run; None: as many as the model likes."""
    allowed = session.budget.max_tool_calls
    return None if allowed is None else max(0, allowed - len(session.tool_calls))


def with_turn_limit(budget: Budget, agent_max_turns: int | None) -> Budget:
    """The budget with the smallest of its own, the agent's and the default limit of turns."""
    own = DEFAULT_MAX_TURNS if budget.max_turns is None else budget.max_turns
    return budget.model_copy(update={"max_turns": min(own, agent_max_turns or own)})


def _stop(limit: Limit, spent: int, allowed: int, code: ErrorCode = ErrorCode.BUDGET) -> Stop:
    words = limit.replace("_", " ")
    return Stop(
        BudgetReached(limit=limit, spent=spent, allowed=allowed),
        code,
        f"the budget of {words} is used up ({spent} of {allowed})",
        to_go_on("trace") if limit == "cost" else f"raise max_{limit} and resume",
    )
