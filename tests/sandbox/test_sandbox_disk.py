"""The disk of a workspace: on this host's loop devices, or not at all and said so."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import disk
from sandbox.base import MIB, Command, Limits, SandboxSpec
from sandbox.errors import SandboxError
from sandbox.workspace import create_workspace, remove_workspace

pytestmark = pytest.mark.docker
SMALL = Limits(workspace_bytes=8 * MIB, workspace_inodes=64)


@pytest.fixture
def no_mkfs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a host without e2fsprogs."""
    monkeypatch.setattr(disk, "PATH", "/nowhere")
    disk.held_limits.cache_clear()
    yield
    disk.held_limits.cache_clear()


def backing_files() -> str:
    found = [loop for loop in Path("/sys/block").glob("loop*/loop/backing_file") if loop.exists()]
    return "".join(loop.read_text() for loop in found)


@pytest.mark.usefixtures("no_mkfs")
async def test_a_host_without_disks_claims_no_limit_and_says_so_once(
    driver: Any, bubblewrap: Any, image: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        for each in (driver, bubblewrap):
            assert not each.capabilities().limits & disk.DISK_LIMITS
        async with await driver.open(SandboxSpec(image)) as sandbox:
            assert (await sandbox.exec(Command("echo on > file; cat file"))).output == b"on\n"

    assert [record.message for record in caplog.records if "no limit of size" in record.message] == [
        disk.NO_DISKS % "A workspace's disk cannot be made: mkfs.ext4 is not installed"
    ]


def test_a_disk_costs_what_is_in_it_and_leaves_nothing(tmp_path: Path):
    workspace = create_workspace(tmp_path, "muster-one", None, Limits())
    taken = (workspace.folder / disk.IMAGE).stat().st_blocks * 512
    at_most = os.statvfs(workspace.upper)
    (workspace.upper / "file").write_bytes(bytes(MIB))
    remove_workspace(workspace.folder)

    assert taken < MIB
    assert 0.98 < at_most.f_blocks * at_most.f_frsize / Limits().workspace_bytes <= 1
    assert 0.98 < at_most.f_files / Limits().workspace_inodes <= 1
    assert not workspace.folder.exists()
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_a_disk_too_small_to_be_one_is_said_and_leaves_nothing(tmp_path: Path):
    with pytest.raises(SandboxError, match="cannot be made"):
        create_workspace(tmp_path, "muster-one", None, Limits(workspace_bytes=1000, workspace_inodes=1))

    assert list((tmp_path / "sandboxes").iterdir()) == []
    assert list((tmp_path / disk.BLANKS).iterdir()) == []


async def test_a_disk_goes_while_others_go_on(bubblewrap: Any, root_folder: str):
    """A mount namespace that began while it was mounted would hold on to it."""
    spec = SandboxSpec(root_folder, limits=SMALL)
    first = await bubblewrap.open(spec)
    async with await bubblewrap.open(spec) as second:
        assert first.id in backing_files() and second.id in backing_files()
        await first.close()
        deadline = time.monotonic() + 30
        while first.id in backing_files() and time.monotonic() < deadline:
            await asyncio.sleep(0.01)  # the kernel has no event for a loop device that is let go

        assert first.id not in backing_files()
        assert (await second.exec(Command("echo on"))).output == b"on\n"
