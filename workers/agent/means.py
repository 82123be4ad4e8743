"""What a session runs with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.events import Event

from ..llm.retry import Retrying
from ..tools.base import Tool, ToolContext
from .calls import RunCalls
from .policy import WindowPolicy
from .session import Session
from .tills import NO_TILL, Pricing, Till


async def nobody_tells(session: Session) -> Mapping[str, str]:
    """For loops whose agents start nobody."""
    return {}


@dataclass(frozen=True, slots=True)
class Loop:
    """`run_calls` answers every call, in their order, and raises only for what ends the attempt (a lost sandbox).

    `emit` takes an event and returns at once; `save` sends what was emitted, stores the session and returns it (with
    the workspace's changes noted), and raises `Fenced` when the task is another's by now. `hear` gives what people have
    said since the last save. `exhausted`: whose money is all spent, the trace's or the tenant's.
    `policy`: how the session is kept within the model's window. `till`: where money for calls is set aside.
    `is_stopped`: when the attempt is cut off, was that the task's end, and no other attempt goes on?
    `is_outside`: does the tool do its work outside of the sandbox, where it outlives a lost worker?
    `fallback`: the model that goes on with the session when this one fails; empty: none.
    `told`: task → words, for each subagent in the background that has ended (see `background.py`).
    """

    model: Retrying
    tools: Mapping[str, Tool]
    run_calls: RunCalls
    context: ToolContext
    emit: Callable[[Event], None]
    save: Callable[[Session], Awaitable[Session]]
    hear: Callable[[], Awaitable[Sequence[str]]]
    price: Pricing
    exhausted: Callable[[], str]
    policy: WindowPolicy = field(default_factory=WindowPolicy)
    till: Till = NO_TILL
    fallback: str = ""
    is_stopped: Callable[[], bool] = lambda: False
    is_outside: Callable[[str], bool] = lambda name: False
    told: Callable[[Session], Awaitable[Mapping[str, str]]] = nobody_tells
