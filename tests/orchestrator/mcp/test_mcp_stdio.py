"""`muster mcp` as a process, started by the official client library as editors start it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from envelope.agents import AgentCard, WorkerCard
from orchestrator.mcp.table import TOOLS
from orchestrator.submit import DRIVERS

pytestmark = pytest.mark.redis

MUSTER = Path(sys.executable).parent / "muster"
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
WITHOUT_MCP = "import sys; sys.modules['mcp'] = None; from orchestrator.cli.main import main; main(['mcp'])"


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return {**clean, "MUSTER_STATE_DIR": str(home / "state"), "MUSTER_CONFIG": str(home / "none.toml"), **more}


@pytest.fixture
async def fleet(served_stage, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody whose fleet is the stage's, with workers that only announce themselves."""
    for pool in ("build", DRIVERS):
        card = WorkerCard(worker=pool, pool=pool, slots=1, agents=(BUILD,) if pool == "build" else ())
        await served_stage.transport.announce(card, ttl_s=600)
    settings = served_stage.muster.settings
    where = {"MUSTER_REDIS_URL": settings.redis_url, "MUSTER_FLEET": settings.fleet}
    return environment(tmp_path, MUSTER_POOLS=json.dumps({"build": 1}), **where)


def repository(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    who = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
    for words in (("init", "-q"), ("add", "--all"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", root, *words], check=True)
    return root


@asynccontextmanager
async def started(home: Path, env: dict[str, str], *options: str) -> AsyncIterator[Client]:
    program = StdioServerParameters(command=str(MUSTER), args=["mcp", *options], env=env, cwd=home)
    async with Client(program, read_timeout_seconds=120) as client:
        yield client


async def test_it_greets_and_lists_its_tools_without_a_fleet(tmp_path):
    async with started(tmp_path, environment(tmp_path)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        version = client.server_info.name if client.server_info else ""

    assert (names, version) == ([name for name in TOOLS if name != "answer_ask"], "muster")
    assert not (tmp_path / "state").exists()  # nothing was started for that


async def test_a_goal_starts_in_the_users_own_repository_with_their_rights(fleet, served_stage, tmp_path):
    folder = repository(tmp_path / "demo", {"a.py": "old\n", "muster.toml": 'gate = ["run-tests"]\n'})
    (folder / "a.py").write_text("changed\n")
    async with started(tmp_path, fleet) as client:
        dirty = await client.call_tool("submit_goal", {"goal": "do it", "repository": "demo"})
        begun = await client.call_tool("submit_goal", {"goal": "do it", "repository": "demo", "allow_dirty": True})
        nothing = await client.call_tool("submit_goal", {"goal": "do it", "repository": str(tmp_path / "none")})
        unfit = await client.call_tool("answer_ask", {"ask_id": "ask_1", "choice": "once"})
        waited = await client.call_tool("task_result", {"task_id": begun.structured_content["task_id"], "wait_s": 1})
        listed = await client.call_tool("list_tasks", {})

    assert dirty.content[0].text.startswith(f"error: {folder} has changes that are not committed: a.py\nhint: ")
    assert nothing.is_error and "none" in nothing.content[0].text and "unforeseen" not in nothing.content[0].text
    assert "the role submitter may not approve" in unfit.content[0].text
    assert waited.structured_content["ended"] is False
    assert [task["goal"] for task in listed.structured_content["tasks"]] == ["do it"]
    request = await served_stage.muster.request(begun.structured_content["task_id"])
    assert request.workspace.bundle and request.sender.startswith("mcp:")
    assert request.input.params["gate"] == []  # the repository's word alone, which nobody trusts
    assert any("not trusted" in note for note in begun.structured_content["notes"])


async def test_a_batch_is_named_by_its_file(fleet, served_stage, tmp_path):
    repository(tmp_path / "demo", {"src/a.py": "old\n"})
    text = 'name = "b"\n[[repositories]]\npath = "demo"\n[shards]\nglob = "src/*.py"\n[[steps]]\nrecipe = ["true"]\n'
    (tmp_path / "batch.toml").write_text(text)
    async with started(tmp_path, fleet) as client:
        by_file = await client.call_tool("submit_batch", {"document": "batch.toml"})
        by_text = await client.call_tool("submit_batch", {"document": text})
        missing = await client.call_tool("submit_batch", {"document": "nothing.toml"})

    assert by_file.structured_content["task_id"] == by_text.structured_content["task_id"]
    assert (by_text.structured_content["existing"], missing.is_error) == (True, True)
    assert missing.content[0].text.startswith("error: ") and "unforeseen" not in missing.content[0].text


async def test_read_only_and_the_role_hold(fleet, served_stage, tmp_path):
    repository(tmp_path / "demo", {"a.py": "old\n"})
    async with started(tmp_path, fleet, "--read-only") as client:
        gate = await client.call_tool("submit_goal", {"goal": "do it", "repository": "demo", "gate": ["true"]})
        begun = await client.call_tool("submit_goal", {"goal": "look", "repository": "demo"})
    async with started(tmp_path, fleet, "--role", "viewer") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        stop = await client.call_tool("cancel_task", {"task_id": begun.structured_content["task_id"]})

    assert "this is read-only, and a gate proves changes" in gate.content[0].text
    request = await served_stage.muster.request(begun.structured_content["task_id"])
    assert not any(grant.startswith("edit:") for grant in request.input.params["auth_scope"])
    assert ("submit_goal" in names, "task_result" in names) == (False, True)
    assert "the role viewer may not submit" in stop.content[0].text


async def test_a_client_that_gives_a_call_up_and_then_dies_in_the_middle_of_one(fleet, served_stage, tmp_path):
    """By hand, for a client of the library ends in good order. The server goes on, and then ends at once."""
    task_id = (await served_stage.muster.submit(agent="build", prompt="x", deadline_ms=600_000)).task_id
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    wait = {"name": "task_result", "arguments": {"task_id": task_id, "wait_s": 60}}
    looks = {"name": "task_status", "arguments": {"task_id": task_id}}
    program = await asyncio.create_subprocess_exec(
        MUSTER, "mcp", env=fleet, cwd=tmp_path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdin and program.stdout

    def say(method: str, params: dict[str, Any], number: int | None = None) -> None:
        said = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        program.stdin.write(json.dumps(said).encode() + b"\n")

    async def answer_to(number: int) -> dict[str, Any]:
        while (heard := json.loads(await program.stdout.readline())).get("id") != number:
            assert heard.get("id") != 2 or "error" in heard  # of a call that was given up
        return heard["result"]

    async with asyncio.timeout(100):
        say("initialize", about, 1)
        await answer_to(1)
        say("notifications/initialized", {})
        say("tools/call", wait, 2)
        say("tools/call", looks, 3)
        meanwhile = await answer_to(3)
        say("notifications/cancelled", {"requestId": 2})
        say("tools/call", wait, 4)
        say("tools/call", looks, 5)
        after = await answer_to(5)
        program.stdin.close()
        code = await program.wait()

    assert (meanwhile["structuredContent"]["state"], after["structuredContent"]["state"]) == ("pending", "pending")
    assert code == 0


async def test_a_fleet_that_does_not_answer_is_told_to_the_call(tmp_path):
    async with started(tmp_path, environment(tmp_path, MUSTER_REDIS_URL="redis://127.0.0.1:1")) as client:
        refused = await client.call_tool("list_tasks", {})

    assert refused.content[0].text.startswith("error: ") and "127.0.0.1:1" in refused.content[0].text


def test_without_the_library_it_is_one_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MCP], env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: the library of the Model Context Protocol is not installed\n"
        "hint: install it with: pip install 'muster[mcp]'\n"
    )
