"""The life of a task, as a table that both sides use."""

from __future__ import annotations

from .errors import IllegalMove
from .state import State

__all__ = ["NEXT", "TERMINAL", "State", "check_move"]

NEXT: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.CANCELLED, State.EXPIRED, State.ERROR}),
    # running → pending: its worker was lost, or gave it back
    State.RUNNING: frozenset(State) - {State.RUNNING},
    State.WAITING: frozenset({State.RUNNING, State.PENDING, State.CANCELLED, State.EXPIRED, State.ERROR}),
    State.COMPLETED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
    State.ERROR: frozenset(),
}

TERMINAL: frozenset[State] = frozenset(state for state, following in NEXT.items() if not following)


def check_move(old: State, new: State) -> None:
    """Raise `IllegalMove`, with both names, unless the table has the step."""
    if new not in NEXT[old]:
        raise IllegalMove(f"a task cannot go from {old} to {new}")
