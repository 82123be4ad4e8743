"""Killing what is in a control group. The group is a folder of the test's own, and its processes are real."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import cgroup
from sandbox.cgroup import ControlGroup
from sandbox.errors import SandboxError

KILLED = -9


@pytest.fixture
def two() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def group_with(folder: Path, *processes: subprocess.Popen[bytes]) -> ControlGroup:
    (folder / "cgroup.procs").write_text("".join(f"{process.pid}\n" for process in processes))
    return ControlGroup({"gone": folder / "gone", "memory": folder})


async def test_one_that_may_not_be_killed_keeps_no_other_alive_and_the_group_stays(
    two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, second = two
    really = os.kill

    def kill(pid: int, number: int) -> None:
        if pid == first.pid:
            raise PermissionError("not yours")
        really(pid, number)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(cgroup, "TRIES", 2)

    with pytest.raises(SandboxError, match="cannot be removed"):
        await group_with(tmp_path, first, second).remove()

    assert second.wait(timeout=30) == KILLED
    assert first.poll() is None


def test_one_that_has_ended_and_an_entrance_that_is_gone_are_passed_over(two, tmp_path: Path):
    first, second = two
    first.kill()
    first.wait()

    group_with(tmp_path, first, second).kill()

    assert second.wait(timeout=30) == KILLED
