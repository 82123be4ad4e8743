"""What a batch will about cost: a model is asked for each shard, where its step is an agent's."""

from __future__ import annotations

from collections.abc import Mapping

from repo.local import LocalRepository

from ..batch.preview import preview
from ..batch.spec import BatchSpec
from ..catalogue import agents_of
from ..client import Muster
from .console import note
from .estimate import Spending, agreed


async def agreed_to_batch(
    muster: Muster, spec: BatchSpec, repositories: Mapping[str, LocalRepository], *, may_ask: bool
) -> bool:
    """Tell what it will about cost; False when the person says no."""
    step = next((step for step in spec.steps if step.agent), None)
    if step is None:
        return True
    settings = muster.settings
    found = await preview(spec, repositories, default_budget_microusd=settings.budget_microusd)
    workers = await muster.workers()
    card = agents_of(workers).get(step.agent or "")
    model = card.model if card else ""
    spending = Spending(step.prompt or "", model, found.max_cost_microusd, may_ask, agents=found.count)
    if await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
        return True
    note("nothing was submitted")
    return False
