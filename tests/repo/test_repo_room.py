"""One tenant's mirrors, checkouts and bundles keep no other tenant from work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repo.checkout import checkout

MIB = 1024 * 1024
DISK_BYTES = 24 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk, which takes root")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
async def commits(user: Any, mirror_at: Any) -> list[tuple[Any, str]]:
    """Ten, each of which takes 4 MiB with its pack."""
    made = [user.commit({"big": os.urandom(2 * MIB)}) for _ in range(10)]
    return [(await mirror_at(user, each), each) for each in made]


async def test_what_nobody_works_on_goes_at_once(commits: Any, disk: Path):
    for mirror, commit in commits:
        assert (await checkout(mirror, commit, disk) / "big").exists()
