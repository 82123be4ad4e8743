"""What a batch will about cost: a model is asked for each shard, where one of its steps is an agent's."""

from __future__ import annotations

from ..batch.plan import Planned
from ..catalogue import agents_of
from ..client import Muster
from .console import note
from .estimate import Spending, agreed


async def agreed_to_batch(muster: Muster, plan: Planned, *, count: int | None, may_ask: bool) -> bool:
    """Tell what it will about cost; False when the person says no. `count`: of the shards that are not done already,
    where that is known; of none nothing is asked."""
    step = next((step for step in plan.spec.steps if step.agent), None)
    if step is None or count == 0:
        return True
    settings = muster.settings
    found = await plan.preview(settings)
    workers = await muster.workers()
    card = agents_of(workers).get(step.agent or "")
    model = card.model if card else ""
    spending = Spending(step.prompt or "", model, found.max_cost_microusd, may_ask, agents=count or max(1, found.count))
    if await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
        return True
    note("nothing was submitted")
    return False
