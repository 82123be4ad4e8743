"""A worker with an agent that a program leads: the program is a file of the repository, as it would be of the image."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from envelope.messages import TaskInput, TaskRequest, Workspace

PROGRAM = Path(__file__).with_name("agent_program.py").read_text()
SCOPE = ("read:**", "edit:src/**", "bash:**")
AGENT = """---
description: led by a program
mode: primary
engine: acp
command: [python3, tool/agent_program.py]
{more}---
{prompt}"""


@pytest.fixture(scope="session")
def agent_file() -> Callable[..., str]:
    return lambda more="", prompt="": AGENT.format(more=more, prompt=prompt)


@pytest.fixture(scope="session")
def steps() -> Callable[..., str]:
    """`steps(("read", "/workspace/a"), …)`: a prompt of steps for the program."""
    return lambda *each: "\n".join(["do this:", *(">> " + json.dumps(list(step)) for step in each)])


@pytest.fixture
async def program_workspace(pack: Callable[..., Awaitable[Workspace]]) -> Workspace:
    return await pack({"tool/agent_program.py": PROGRAM})


@pytest.fixture
def led(program_workspace: Workspace) -> Callable[..., TaskRequest]:
    """`led(hands, prompt, …)`: a request for the agent `foreign`."""

    def request(hands: Any, prompt: str, **fields: Any) -> TaskRequest:
        told = {"agent": "foreign", "auth_scope": SCOPE, "workspace": program_workspace}
        return hands.request(**{**told, "input": TaskInput(prompt=prompt), **fields})

    return request


@pytest.fixture
def go_on(containers_of_task: Callable[[str], list[str]]) -> Callable[[TaskRequest], None]:
    """`go_on(request)`: what its program waits for in `pause` is there."""

    def tell(request: TaskRequest) -> None:
        [container] = containers_of_task(request.task_id)
        subprocess.run(["docker", "exec", container, "touch", "/tmp/go"], check=True)

    return tell
