"""docs/mcp.md as a coding agent follows it: the official client library, `muster mcp`, and a whole fleet behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from scripted import CANARY, scripted_model
from shell import BIN, ROOT, User, demo, git

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]


async def asked(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def handed_over(user: User) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A goal, from the client's start to its outcome: what it came to, its diff, and the fleet's agents."""
    program = StdioServerParameters(command=str(BIN / "muster"), args=["mcp"], env=user._env(), cwd=user.home)
    async with Client(program, read_timeout_seconds=240) as client:
        agents = await asked(client, "list_agents")
        started = await asked(
            client,
            "submit_goal",
            goal=demo.GOAL,
            repository="more-itertools",
            setup=[demo.SETUP],
            gate=[demo.TESTS],
            budget_usd=2,
            deadline_minutes=10,
        )
        async with asyncio.timeout(240):
            while not (outcome := await asked(client, "task_result", task_id=started["task_id"], wait_s=60))["ended"]:
                pass
        return outcome, await asked(client, "task_diff", task_id=started["task_id"]), agents


def test_another_agent_hands_a_goal_over_and_fetches_a_change_that_the_platform_has_proved(user: User):
    with scripted_model(ROOT / "examples" / "demo" / "model.yaml") as user.environment:
        outcome, diff, agents = asyncio.run(handed_over(user))
        applied = user.muster("task", "apply", outcome["task_id"], "--repo", "more-itertools")
        user.muster("down")

    assert (outcome["state"], outcome["done"], outcome["verified"], outcome["errors"]) == ("completed", True, True, [])
    assert outcome["files"] == ["M more_itertools/more.py"]
    assert 0 < outcome["cost_usd"] < 2
    assert "n must be at least 1, not" in diff["diff"]["text"]
    assert {"build", "explore", "general", "plan"} <= {agent["name"] for agent in agents["agents"]}
    assert CANARY not in f"{outcome}{diff}{agents}"
    assert applied.returncode == 0, applied.stderr
    assert git(user.home / "more-itertools", "diff", "--name-only") == "more_itertools/more.py"
