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

from envelope.asks import AskTerms, Reply
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.asks import open_asks
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


# It ends its turn when it is refused something; its model hears of it with the next prompt alone.
IS_REFUSED = """
rules:
  - when: {system_contains: title}
    reply: {text: "A greeting"}
  - when: {user_contains: This was not allowed}
    reply: {text: "I leave it."}
  - reply:
      tool_calls: [{name: write, arguments: {filePath: /workspace/src/new.py, content: "HELLO = 1\\n"}}]
"""
STUBBORN = IS_REFUSED.replace("This was not allowed", "never said")
RULE = "denied by the rule `edit: *`"
NOBODY = "needs a person's approval, and this run cannot ask for it"
A_PERSON, A_HOOK = "put it into src/other.py", "nothing is written on a Friday"
HOOK = f"""
from workers.hooks.api import Refuse


class Policy:
    async def before_tool(self, use):
        return Refuse("{A_HOOK}") if use.tool == "edit" else None
"""


def file_with(edit: str) -> str:
    assert "permission: {edit: allow, bash: allow}" in AGENT
    return AGENT.replace("permission: {edit: allow,", f"permission: {{edit: {edit},")


def reasons(server) -> list[str]:
    """What its model was told in the last request."""
    return [str(message["content"]) for message in server.log.bodies[-1]["messages"] if message["role"] == "user"]


@pytest.mark.parametrize(("edit", "why"), [("deny", RULE), ("ask", NOBODY), ("allow", A_HOOK), ("ask", A_PERSON)])
async def test_opencode_hears_why_it_was_refused_and_goes_on(start_agents, led, install, edit, why):
    if why == A_HOOK:
        install(HOOK, policy="Policy")
    hands, server = await start_agents(IS_REFUSED, agents={"foreign": file_with(edit)})
    asks = AskTerms() if why == A_PERSON else None
    request = led(hands, "write a module", deadline_ms=300_000, asks=asks)
    if asks is None:
        result = await hands.result(request)
    else:
        await hands.transport.submit([request])
        await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)
        [asked] = await open_asks(hands.transport, trace_id=request.trace_id)
        no = Reply(choice="reject", message=why)
        await hands.transport.answer(request.task_id, asked.ask.ask_id, no.text(), by="me")
        result = await hands.ended(request.task_id)

    assert (result.status, result.errors, result.patch) == (State.COMPLETED, (), None)
    assert result.output.text == "I leave it."
    assert f"- edit (/workspace/src/new.py): {why}" in reasons(server)[-1] or why in reasons(server)[-1]


async def test_opencode_that_tries_the_same_again_ends_as_refused(start_agents, led):
    hands, _ = await start_agents(STUBBORN, agents={"foreign": file_with("deny")})

    result = await hands.result(led(hands, "write a module", deadline_ms=300_000))

    [error] = result.errors
    assert (result.status, error.code) == (State.ERROR, ErrorCode.REFUSED)
    assert RULE in error.message


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
