"""What a trace has cost, by model and by agent, beside what it may cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from transport.base import TaskRecord
from transport.money import Ledger

from .budgets import reserved_by
from .session.fold import Session
from .session.task import Spent

# Model calls that are no turns of an agent (titles), and turns whose events are no longer kept.
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Cost:
    """`spent` is what the trace's ledger and its batch's shards come to: the sum of each of the two tables.

    `reserved`: what calls that are under way have set aside, by task.
    """

    ledger: Ledger
    by_model: Mapping[str, Spent]
    by_agent: Mapping[str, Spent]
    reserved: Mapping[str, int]

    @property
    def spent_microusd(self) -> int:
        return sum(spent.cost_microusd for spent in self.by_agent.values())

    @property
    def tokens(self) -> int:
        """Of the agents' turns; a provider's count of other calls is not told."""
        return sum(spent.usage.total_tokens for spent in self.by_agent.values())


def cost_of(session: Session, ledger: Ledger, tasks: Iterable[TaskRecord]) -> Cost:
    """`tasks`: the records of the trace's tasks, whose reservations they hold."""
    by_model: dict[str, Spent] = {}
    by_agent: dict[str, Spent] = {}
    for task in session.tasks.values():
        for model, spent in task.by_model.items():
            by_model[model or OTHERS] = by_model.get(model or OTHERS, Spent()) + spent
        if task.usage.total_tokens or task.cost_microusd:
            own = Spent(task.usage, task.cost_microusd)
            by_agent[task.agent or OTHERS] = by_agent.get(task.agent or OTHERS, Spent()) + own
    elsewhere = sum(task.cost_microusd for task in session.tasks.values() if _is_elsewhere(session, task.trace_id))
    whole = ledger.spent_microusd + elsewhere
    return Cost(
        ledger,
        _filled_up(by_model, whole),
        _filled_up(by_agent, whole),
        reserved_by(tasks),
    )


def _is_elsewhere(session: Session, trace_id: str) -> bool:
    """A batch's shard, whose money is its own trace's."""
    return bool(trace_id) and trace_id != session.root_task.trace_id


def _filled_up(table: dict[str, Spent], whole_microusd: int) -> Mapping[str, Spent]:
    missing = whole_microusd - sum(spent.cost_microusd for spent in table.values())
    if missing <= 0:
        return table
    return table | {OTHERS: table.get(OTHERS, Spent()) + Spent(cost_microusd=missing)}
