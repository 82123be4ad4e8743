"""What a careless or hostile client does to both doors: odd values for every argument, and leaving in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from envelope.ids import new_task_id
from envelope.lifecycle import State
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


async def refused_of(waits: list[asyncio.Task[Any]]) -> Any:
    """Of one wait more than there are places: what is said to the one that finds none. The others hold theirs."""
    async with asyncio.timeout(60):
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    [refused] = done
    return refused.result()


async def test_who_leaves_in_the_middle_of_a_wait_gives_the_place_back(server):
    """All places are taken; then who waits gives up, or is gone with the connection."""
    task = {"agent": "build", "prompt": "do it", "deadline_ms": 600_000, "tenant": "default"}
    wait = {"task_id": (await server.stage.muster.submit(**task)).task_id, "wait_s": 60}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task_result", "arguments": wait}}
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {server.secrets['admin']}"}

    async def asked(session: aiohttp.ClientSession) -> str:
        async with session.post(f"{server.url}/mcp", json=body) as response:
            return await response.text()

    async def until_there_is_a_place() -> None:
        async with asyncio.timeout(60), server.caller() as caller:
            while (await caller.client.call_tool("task_result", {**wait, "wait_s": 1})).is_error:
                pass

    async with server.caller() as caller:
        calls = [asyncio.create_task(caller.client.call_tool("task_result", wait)) for _ in range(MOST_WAITS + 1)]
        told = (await refused_of(calls)).content[0].text
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until_there_is_a_place()
    async with aiohttp.ClientSession(headers=headers) as session:
        posts = [asyncio.create_task(asked(session)) for _ in range(MOST_WAITS + 1)]
        told_by_hand = await refused_of(posts)
        for post in posts:
            post.cancel()  # each closes its connection
        await asyncio.gather(*posts, return_exceptions=True)
    await until_there_is_a_place()

    assert f"{MOST_WAITS} calls wait for results already\nhint: ask again without `wait_s`" in told
    assert f"{MOST_WAITS} calls wait for results already" in told_by_hand
    assert (await server.stage.muster.record(wait["task_id"])).state is State.PENDING  # that nobody waits ends nothing
