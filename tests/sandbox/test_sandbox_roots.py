"""What a bubblewrap sandbox stands on."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from sandbox.base import Command, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.errors import ImageMissing
from sandbox.image import DEFAULT_IMAGE
from sandbox.roots import Roots
from sandbox.setup import image_id_of


def test_who_named_no_image_has_this_hosts_programs(tmp_path: Path):
    """So `auto` works with and without an engine, by the same settings."""
    roots = Roots(tmp_path / "images", tmp_path / "sandboxes", tmp_path / "roots")
    assert roots.layers(DEFAULT_IMAGE) == roots.layers("host") == [Path("/")]


async def test_an_image_that_is_missing_is_told_with_what_would_work(tmp_path: Path):
    roots = Roots(tmp_path / "images", tmp_path / "sandboxes", tmp_path / "roots")
    with pytest.raises(ImageMissing, match="no image debian:13") as refused:
        await image_id_of(roots, "debian:13")
    assert "MUSTER_IMAGE" in refused.value.hint and "sandbox build" not in refused.value.hint


@pytest.mark.docker
async def test_the_bound_on_a_workers_own_memory_is_not_its_sandboxes(bubblewrap: BubblewrapDriver, root_folder: str):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (16 << 30, before[1]))
    try:
        async with await bubblewrap.open(SandboxSpec(root_folder)) as sandbox:
            told = await sandbox.exec(Command("ulimit -S -d"))
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    assert told.output.strip() == b"unlimited"
