"""How a session is kept within its model's window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..agents.registry import builtin
from ..llm.base import Kind
from ..llm.limits import UNKNOWN, ModelLimits
from .session import Session
from .shown import pruned
from .summary import NotesWanted, as_ever


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """`prompt` is the system prompt of the agent `compaction`. `sees`: the kinds of files that the model is shown.

    `auto`: False leaves it to people. `reserved`: see `usable_tokens`. `prunes`: old outputs are cleared, too.
    `wanted`: what an operator's hooks make of how the notes are asked for.
    """

    limits: ModelLimits = UNKNOWN
    auto: bool = True
    reserved: int | None = None
    prunes: bool = False
    prompt: str = field(default_factory=lambda: builtin()["compaction"].prompt)
    wanted: Callable[[NotesWanted], Awaitable[NotesWanted]] = as_ever
    sees: frozenset[Kind] = frozenset()

    def pruned(self, session: Session) -> Session:
        return pruned(session) if self.prunes else session
