"""What a batch will about cost: a model is asked for each shard, where one of its steps is an agent's."""

from __future__ import annotations

from ..batch.plan import Planned
from ..catalogue import agents_of
from ..client import Muster
from .console import note
from .estimate import Spending, agreed


async def agreed_to_batch(muster: Muster, plan: Planned, *, may_ask: bool) -> bool:
    """Tell what it will about cost, where its shards are known; False when the person says no."""
    step = next((step for step in plan.spec.steps if step.agent), None)
    if step is None:
        return True
    settings = muster.settings
    found = await plan.preview(settings)
    workers = await muster.workers()
    card = agents_of(workers).get(step.agent or "")
    model = card.model if card else ""
    spending = Spending(step.prompt or "", model, found.max_cost_microusd, may_ask, agents=max(1, found.count))
    if await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
        return True
    note("nothing was submitted")
    return False
