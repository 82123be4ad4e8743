"""Agents that only read have no sandbox of their own; whoever runs or writes something has one from then on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput, Workspace

pytestmark = [pytest.mark.redis, pytest.mark.docker]


def calls(*tools: tuple[str, dict[str, Any]]) -> str:
    """A call a turn, and an answer at the end."""
    turns = [
        {"when": {"turn": turn}, "reply": {"tool_calls": [{"name": name, "arguments": arguments}]}}
        for turn, (name, arguments) in enumerate(tools, 1)
    ]
    return json.dumps({"rules": [*turns, {"reply": {"text": "done"}}]})


FILES = {"src/app.py": "def answer():\n    return 41\n"}
READS = ("read", {"filePath": "/workspace/src/app.py"})
LOOKS = (READS, ("glob", {"pattern": "*.py"}), ("grep", {"pattern": "def"}), ("list", {"path": "/workspace"}))


def own(hands: Any) -> float:
    """Sandboxes that tasks were given."""
    return hands.metrics.registry.get_sample_value("muster_sandbox_created_total") or 0.0


def explore(hands: Any, workspace: Workspace) -> Any:
    told = {"agent": "explore", "recipient": "explore", "auth_scope": ("read:**", "list:**", "glob:**", "grep:**")}
    return hands.request(**told, input=TaskInput(prompt="look"), workspace=workspace)


@pytest.mark.parametrize(("shared", "opened"), [(True, 0), (False, 3)])
async def test_explorers_read_together(start_agents: Any, pack: Any, shared: bool, opened: int):
    workspace = await pack(FILES)
    hands, _ = await start_agents(calls(*LOOKS), shared_sandboxes=shared)

    results = await asyncio.gather(*(hands.result(explore(hands, workspace)) for _ in range(3)))

    assert [(result.status, result.output.text) for result in results] == [(State.COMPLETED, "done")] * 3
    assert {(call.tool, call.is_error) for result in results for call in result.tool_calls} == {
        (name, False) for name, _ in LOOKS
    }
    assert own(hands) == opened


async def test_who_writes_sees_what_it_wrote_and_its_patch_has_it(start_agents: Any, pack: Any):
    write = ("bash", {"command": "echo 'X = 2' > src/app.py", "description": "write"})
    hands, server = await start_agents(calls(READS, write, ("grep", {"pattern": "X = 2"}), READS))
    told = {
        "agent": "build",
        "input": TaskInput(prompt="work"),
        "workspace": await pack(FILES),
        "auth_scope": ("read:**", "grep:**", "edit:**", "bash:**"),
    }

    result = await hands.result(hands.request(**told))

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert [file.path for file in result.patch.files] == ["src/app.py"]
    said = [str(message["content"]) for message in server.log.bodies[-1]["messages"] if message["role"] == "tool"]
    assert ["X = 2" in each for each in said] == [False, False, True, True]
    assert own(hands) == 1
    assert hands.metrics.registry.get_sample_value("muster_sandbox_active") == 0
