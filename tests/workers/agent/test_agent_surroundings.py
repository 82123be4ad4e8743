"""What an agent is told about its workspace, seen in a real sandbox."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.base import Sandbox, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image import DEFAULT_IMAGE
from workers.agent.prompt import MAX_INSTRUCTION_BYTES, MAX_TREE_PATHS, Environment, look_around

pytestmark = pytest.mark.docker


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with (
        DockerDriver(tmp_path / "state", f"test-{uuid.uuid4().hex}") as driver,
        await driver.open(SandboxSpec(DEFAULT_IMAGE)) as opened,
    ):
        yield opened


async def look(sandbox: Sandbox) -> Environment:
    return await look_around(sandbox, date="2026-11-21", base="abc", writable=True)


async def test_the_files_are_listed_without_hidden_folders(sandbox):
    for path in ("src/app.py", "README.md", ".git/config", ".venv/lib/x.py"):
        await sandbox.write(f"/workspace/{path}", b"x\n")

    seen = await look(sandbox)

    assert seen.paths == ("README.md", "src/app.py")
    assert not seen.more_paths and seen.instructions is None


async def test_a_large_tree_is_cut_and_says_so(sandbox):
    for number in range(MAX_TREE_PATHS + 1):
        await sandbox.write(f"/workspace/f{number:03}.txt", b"")

    seen = await look(sandbox)

    assert len(seen.paths) == MAX_TREE_PATHS and seen.more_paths


async def test_agents_md_goes_before_claude_md_and_is_cut_at_its_limit(sandbox):
    await sandbox.write("/workspace/CLAUDE.md", b"second choice")
    assert (await look(sandbox)).instructions == ("CLAUDE.md", "second choice")

    await sandbox.write("/workspace/AGENTS.md", b"a" * (MAX_INSTRUCTION_BYTES + 10))
    name, text = (await look(sandbox)).instructions

    assert name == "AGENTS.md" and text == "a" * MAX_INSTRUCTION_BYTES


async def test_a_folder_called_agents_md_is_no_instruction(sandbox):
    await sandbox.write("/workspace/AGENTS.md/x", b"")

    assert (await look(sandbox)).instructions is None
