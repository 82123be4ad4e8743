"""What a careless or hostile client does to both doors: odd values for every argument, and leaving in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from envelope.ids import new_task_id
from orchestrator.api.rates import Rates
from orchestrator.mcp.table import TOOLS
from orchestrator.mcp.tool import MOST_WAITS

pytestmark = pytest.mark.redis

NOBODY = new_task_id()
# What each tool needs beside the argument that is tried.
NEEDED: dict[str, Any] = {
    "goal": "do it",
    "prompt": "look at {item}",
    "items": ["a"],
    "document": "name = 1",
    "task_id": NOBODY,
    "text": "more",
    "ask_id": "ask_none",
}
ODD: tuple[Any, ...] = (None, True, -1, 1e300, "x" * 300_000, "\x1b[2J\u202e\u200b\x00", [["x"]], {"a": {"b": []}})
HIDDEN = {"\x1b", "\u202e", "\u200b", "\x00"}


def arguments_of(tool: str) -> dict[str, Any]:
    return TOOLS[tool].arguments.model_json_schema()["properties"]


def test_every_tool_and_argument_is_explained_to_who_has_nothing_else():
    for name, tool in TOOLS.items():
        assert tool.description.splitlines()[0].endswith("."), name
        for argument, schema in arguments_of(name).items():
            assert schema.get("description"), f"{name}.{argument}"


@pytest.mark.parametrize("name", TOOLS)
async def test_an_odd_argument_is_a_sentence_and_no_fault_of_ours(serve, name: str):
    needed = {key: value for key, value in NEEDED.items() if key in arguments_of(name)}
    async with serve(Rates(per_s=1_000, burst=1_000)) as server, server.caller() as caller:
        for argument in arguments_of(name):
            for odd in ODD:
                result = await caller.client.call_tool(name, {**needed, argument: odd})
                said = result.content[0].text
                assert "unforeseen" not in said, (argument, odd)
                assert not HIDDEN & set(said) and len(said) < 2_000, (argument, odd)
                assert said.startswith("error: ") == bool(result.is_error)


async def test_who_leaves_in_the_middle_of_a_wait_gives_the_place_back(server):
    """Twenty wait, and nobody else of that name may; they are gone, one by one or with their connection."""
    task_id = (
        await server.stage.muster.submit(agent="build", prompt="x", deadline_ms=600_000, tenant="default")
    ).task_id
    wait = {"task_id": task_id, "wait_s": 60}

    async def is_full(full: bool) -> None:
        async with asyncio.timeout(60), server.caller() as other:
            while True:
                result = await other.client.call_tool("task_result", {"task_id": task_id, "wait_s": 1})
                if bool(result.is_error) == full:
                    return

    async with server.caller() as caller:
        waits = [asyncio.create_task(caller.client.call_tool("task_result", wait)) for _ in range(MOST_WAITS)]
        await is_full(True)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await is_full(False)
        listed = await caller.call("list_tasks")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task_result", "arguments": wait}}
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {server.secrets['admin']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        posts = [asyncio.create_task(session.post(f"{server.url}/mcp", json=body)) for _ in range(MOST_WAITS)]
        await is_full(True)
    await asyncio.gather(*posts, return_exceptions=True)
    await is_full(False)

    assert len(listed["tasks"]) == 1  # the task that they waited for lives on
