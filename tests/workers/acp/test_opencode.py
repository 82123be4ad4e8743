"""OpenCode, as its makers ship it, leads a task in a real sandbox; its model is ours, through the relay."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envelope.lifecycle import State
from sandbox.image.build import build_image

ROOT = Path(__file__).parents[3]
BINARY = ROOT / ".node/node_modules/opencode-linux-x64-baseline/bin/opencode"
BASE = "muster-sandbox:latest"
IMAGE = f"muster-sandbox-opencode:{os.getpid()}"  # two runs on one engine take nothing from each other
DOCKERFILE = f"FROM {BASE}\nCOPY opencode /usr/local/bin/opencode\n"
pytestmark = [
    pytest.mark.redis,
    pytest.mark.docker,
    pytest.mark.skipif(not BINARY.exists(), reason="OpenCode is not there: scripts/test-tools.sh"),
]

# As the documentation has it: whoever copies that file gets this.
AGENT, *_ = re.findall(r"```markdown\n(.*?)```", (ROOT / "docs/engines.md").read_text(), re.DOTALL)
WRITES = """
rules:
  - when: {system_contains: title}
    reply: {text: "A greeting"}
  - when: {turn: 1}
    reply:
      text: "I write it."
      tool_calls: [{name: write, arguments: {filePath: /workspace/src/new.py, content: "HELLO = 1\\n"}}]
  - when: {turn: 2}
    reply: {text: "It is written."}
"""


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sandbox image with OpenCode in it, as an operator would make one."""
    asyncio.run(build_image(BASE))
    folder = tmp_path_factory.mktemp("opencode")
    shutil.copyfile(BINARY, folder / "opencode")
    (folder / "opencode").chmod(0o755)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, str(folder)], check=True, capture_output=True)
    yield IMAGE
    subprocess.run(["docker", "rmi", IMAGE], check=True, capture_output=True)


async def test_opencode_edits_in_our_sandbox_with_our_model_on_our_budget(start_agents, led):
    hands, server = await start_agents(WRITES, agents={"foreign": AGENT})

    result = await hands.result(led(hands, "write a module", deadline_ms=300_000))

    assert result.errors == ()
    assert result.status is State.COMPLETED
    assert result.output.text == "It is written."
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert "edit" in [call.tool for call in result.tool_calls]
    assert result.metrics.cost_microusd > 0
    assert result.metrics.turns == server.log.requests
