"""The fleet, in a browser."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Metrics, Usage
from envelope.events import TurnFinished, TurnStarted

WORKERS = (
    ("orchestrator", "node-1", 64),
    ("build", "node-1", 4),
    ("explore", "node-1", 8),
    ("explore", "node-2", 8),
    ("general", "node-2", 2),
)
GOALS = ("Replace the deprecated utcnow() calls", "Give the parser a size limit", "Why is the nightly build slow?")


async def serving(console) -> None:
    """Workers of every pool, and goals that wait and run."""
    for number, (pool, host, slots) in enumerate(WORKERS):
        agents = (AgentCard(name=pool, mode="primary", pool=pool, auth_scope=("read:**",)),)
        what = {"pool": pool, "slots": slots, "host": host, "model": "openai/gpt-5"}
        card = WorkerCard(worker=f"{host}-{number}", agents=agents, **what)
        await console.stage.transport.announce(card, ttl_s=600)
    for number, goal in enumerate(GOALS, 1):
        work = await console.work(goal)
        spent = Metrics(usage=Usage(input_tokens=8_200 * number, output_tokens=900), cost_microusd=2_100 * number)
        await work.tell(
            TurnStarted(turn=1, model="openai/gpt-5"),
            TurnFinished(turn=1, finish_reason="tool_calls", usage=spent.usage, cost_microusd=spent.cost_microusd),
            metrics=spent,
        )
    await console.stage.muster.submit(agent="build", prompt="Drop the old settings", deadline_ms=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_fleet_is_usable_by_all(console, visit, axe, picture, on_a_phone, scheme):
    await serving(console)
    page = await visit("/", color_scheme=scheme)

    await expect(page.get_by_role("row").filter(has_text=GOALS[0])).to_contain_text("$0.0021")
    assert await axe(page) == []
    await picture(page, f"fleet-{scheme}")
    await on_a_phone(page)
