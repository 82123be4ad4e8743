"""Commands that go on beside a program: how they end, and how much of what they say is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandbox.base import Command, Sandbox, SandboxSpec
from sandbox.driver import DockerDriver
from workers.acp import terminals
from workers.acp.terminals import Terminal, Terminals
from workers.tools.errors import ToolError

pytestmark = pytest.mark.docker

END = "n0nce"


@pytest.fixture
async def sandbox(driver: DockerDriver, image: str) -> AsyncIterator[Sandbox]:
    async with await driver.open(SandboxSpec(image)) as opened:
        yield opened


KEPT = [  # what is said, how many bytes are kept; exit code, what is seen, is that cut?
    (f"mine{END}3;of the background", 100, (3, "mine", False)),
    (f"mine{END}0;", 4, (0, "mine", False)),
    (f"mine{END}0;", 3, (0, "ine", True)),
    (f"mine{END}0;", 0, (0, "", True)),
    ("killed", 5, (None, "illed", True)),
    ("ää", 3, (None, "ä", True)),
]


async def test_the_end_of_what_a_command_says_is_kept_and_its_exit_code_found_in_it(sandbox):
    for said, max_bytes, kept in KEPT:
        terminal = Terminal(await sandbox.start(["printf", "%s", said]), END.encode(), max_bytes)

        await terminal.hear()

        assert (terminal.exit_code, *terminal.look()) == kept


async def test_the_last_terminal_is_given_once_and_what_a_command_leaves_goes_on(sandbox, monkeypatch):
    monkeypatch.setattr(terminals, "MAX_TERMINALS", 1)
    opened = Terminals(sandbox)
    command = "(yes | head -c 1000000; touch /tmp/went-on) & echo left"

    both = [opened.start(command, "/workspace", {}, max_bytes=5) for _ in range(2)]
    name, refused = await asyncio.gather(*both, return_exceptions=True)

    assert isinstance(refused, ToolError)
    await opened.named(name).ended.wait()
    assert opened.named(name).exit_code == 0
    waits = "until [ -e /tmp/went-on ]; do sleep 0.02; done"  # more than a pipe holds is heard to its end
    assert (await sandbox.exec(Command(waits, timeout_s=60))).exit_code == 0
    await opened.close()
