"""A hostile sandbox and a neighbour, of either driver. Whatever the one does, the other does not notice, and both go
without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.base import MIB, Command, ExecResult, Limits, Sandbox, SandboxDriver, SandboxSpec

TIGHT = Limits(
    memory_bytes=256 * MIB, pids=96, tmp_bytes=16 * MIB, tmp_inodes=500, shm_inodes=200, open_files=128,
    workspace_bytes=32 * MIB, workspace_inodes=1008,
)  # fmt: skip
PATIENCE_S = 60.0


@dataclass
class Arena:
    """`hostile` has tight limits and an empty workspace."""

    driver: SandboxDriver
    image: str
    hostile: Sandbox
    neighbour: Sandbox

    async def run(self, line: str, *, timeout_s: float = PATIENCE_S, max_output_bytes: int = MIB) -> ExecResult:
        return await self.hostile.exec(Command(line, timeout_s=timeout_s, max_output_bytes=max_output_bytes))

    async def python(self, code: str, *, timeout_s: float = PATIENCE_S) -> str:
        result = await self.hostile.exec(Command(["python3", "-"], stdin=code.encode(), timeout_s=timeout_s))
        return result.output.decode()


@pytest.fixture(params=["docker", "bubblewrap"])
def place(request: pytest.FixtureRequest) -> tuple[SandboxDriver, str]:
    """A driver, and what it calls the image."""
    fixtures = {"docker": ("driver", "image"), "bubblewrap": ("bubblewrap", "root_folder")}
    driver, image = (request.getfixturevalue(name) for name in fixtures[request.param])
    return driver, image


@pytest.fixture
async def arena(place: tuple[SandboxDriver, str], tmp_path: Path) -> AsyncIterator[Arena]:
    driver, image = place
    hostile, neighbour = await asyncio.gather(
        driver.open(SandboxSpec(image, limits=TIGHT)), driver.open(SandboxSpec(image))
    )
    async with hostile, neighbour:
        await neighbour.write("/workspace/mine", b"untouched")
        keeper = await neighbour.start(["cat"])
        yield Arena(driver, image, hostile, neighbour)

        assert (await neighbour.exec(Command("cat mine; touch /tmp/x"))).output == b"untouched"
        await keeper.send(b"still here")
        assert await keeper.receive() == b"still here"
        assert [each.path for each in await neighbour.list("/workspace")] == ["/workspace/mine"]
    assert hostile.id not in Path("/proc/self/mountinfo").read_text()
    assert [known for known in await driver.known() if known.sandbox_id in (hostile.id, neighbour.id)] == []
