"""A batch on one board: each of its shards where it stands, from the batch's events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.events import MergeStep
from envelope.lifecycle import State

from ..session.fold import Session
from ..session.task import TaskView
from ..submit import VERIFY
from .causes import in_general

# From the left to the right as work goes on; what needs a look comes first.
COLUMNS = ("failed", "in collision", "set aside", "waiting", "running", "in line", "done", "merged", "unchanged")
_BY_STATE: Mapping[State, str] = {
    State.PENDING: "in line",
    State.RUNNING: "running",
    State.WAITING: "waiting",
    State.COMPLETED: "done",
}
_BY_MERGE = {"applied": "merged", "empty": "unchanged", "collision": "in collision", "set_aside": "set aside"}


@dataclass(frozen=True, slots=True)
class Card:
    """A shard, or a task that was to bring two of them together. `key`: as the batch calls it."""

    key: str
    task: TaskView


@dataclass(frozen=True, slots=True)
class Alike:
    """Failures of one cause; `detail` is what the first of them says."""

    detail: str
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Board:
    columns: Mapping[str, tuple[Card, ...]]
    merges: Sequence[MergeStep] = ()
    failures: Sequence[Alike] = ()
    cost_microusd: int = 0
    landed: int = 0
    total: int = 0
    by_key: Mapping[str, Card] = field(default_factory=dict[str, Card])

    @property
    def cost_per_accepted_microusd(self) -> int | None:
        """What all that was tried has cost so far, for each patch that landed; None where none did."""
        return self.cost_microusd // self.landed if self.landed else None


def board_of(session: Session) -> Board:
    """As the batch's events tell it: while it is at work, and after it."""
    children = [session.tasks[child] for child in session.root_task.children]
    cards = [Card(child.title, child) for child in children if child.agent != VERIFY]
    latest = {card.key: card for card in cards}  # a shard that is done again, or has several steps
    merges = {step.key: step for step in session.merges}
    columns: dict[str, list[Card]] = {name: [] for name in COLUMNS}
    for card in latest.values():
        columns[_column(card, merges.get(card.key))].append(card)
    return Board(
        columns={name: tuple(found) for name, found in columns.items()},
        merges=session.merges,
        failures=_alike(columns["failed"]),
        cost_microusd=session.cost_microusd,
        landed=sum(step.outcome == "applied" for step in merges.values()),
        total=len(latest),
        by_key=latest,
    )


def _column(card: Card, merge: MergeStep | None) -> str:
    if merge is not None:
        return _BY_MERGE[merge.outcome]
    return _BY_STATE.get(card.task.state, "failed")


def _alike(cards: Iterable[Card]) -> list[Alike]:
    found: dict[str, list[Card]] = {}
    for card in cards:
        found.setdefault(in_general(card.task.error or str(card.task.state)), []).append(card)
    made = [Alike(same[0].task.error or str(same[0].task.state), tuple(same)) for same in found.values()]
    return sorted(made, key=lambda each: -len(each.cards))
