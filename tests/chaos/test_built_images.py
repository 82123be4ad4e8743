"""What `muster sandbox build` makes from packages, whole: minutes, and a package mirror in reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.schedule import SOAK

from sandbox.base import Command, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.contract import CASES, staged
from sandbox.driver import DockerDriver
from sandbox.first_use import try_image
from sandbox.image import CC_IMAGE
from sandbox.image.root import build_root
from sandbox.image.variants import build_cc

pytestmark = [
    pytest.mark.skipif(not SOAK, reason="make soak runs it"),
    pytest.mark.timeout(3600),
]
COMPILE = "printf 'int main() { return 42; }' > a.c && gcc a.c -o a && ./a"


@pytest.mark.docker
async def test_the_image_with_compilers_compiles(tmp_path: Path):
    await build_cc()
    async with DockerDriver(tmp_path, "test-images") as driver:
        assert await try_image(driver, CC_IMAGE) == ()
        async with await driver.open(SandboxSpec(CC_IMAGE)) as sandbox:
            assert (await sandbox.exec(Command(COMPILE))).exit_code == 42


async def test_a_root_made_without_an_engine_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    async with BubblewrapDriver(tmp_path, "test-images") as driver:
        root = driver.roots.root_of(CC_IMAGE)
        await build_root(root, cc=True)
        assert not (root / "etc/resolv.conf").exists()
        for case in CASES.values():
            async with staged(driver, CC_IMAGE) as stage:
                await case(stage)
        async with await driver.open(SandboxSpec(CC_IMAGE)) as sandbox:
            assert (await sandbox.exec(Command(COMPILE))).exit_code == 42
