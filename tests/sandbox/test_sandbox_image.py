"""The image: made of what it says, and made again only when that changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import EngineUnavailable, ImageBuildFailed
from sandbox.image.build import CONTENT_LABEL, HERE, bootstrap_base, build_image, content_hash

pytestmark = pytest.mark.docker


async def test_a_second_build_does_nothing(image: str):
    said: list[str] = []
    first = await build_image(image, on_progress=said.append)

    assert await build_image(image, on_progress=said.append) == first
    assert said == []
    template = f'{{{{index .Config.Labels "{CONTENT_LABEL}"}}}}'
    label = subprocess.check_output(["docker", "image", "inspect", "--format", template, image], text=True)
    assert label.strip() == content_hash()


async def test_everything_that_was_promised_is_inside(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image)) as sandbox:
        result = await sandbox.exec(
            Command("for p in git rg python3 patch ps make pytest ruff; do command -v $p; done")
        )
        assert len(result.output.split()) == 8
        assert (await sandbox.exec(Command("python -c 'import libcst, pytest'"))).exit_code == 0
        assert (await sandbox.exec(Command("command -v python pytest"))).output.startswith(b"/opt/venv/bin/python\n")


async def test_the_hosts_settings_are_in_no_layer(image: str):
    history = subprocess.check_output(
        ["docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", image], text=True
    )
    shown = subprocess.check_output(["docker", "image", "inspect", image], text=True)
    secrets = [value for name, value in os.environ.items() if name.startswith("PIP_") and len(value) > 6]

    assert "index" not in history.replace("--no-index", "")
    assert not any(value in history + shown for value in secrets)


def test_requirements_are_pinned_by_hash_and_name_no_index():
    text = (HERE / "requirements.txt").read_text()
    pins = [line for line in text.splitlines() if "==" in line]

    assert text.count("--hash=sha256:") >= len(pins) > 0
    assert "://" not in text
    assert "--index" not in text


async def test_without_a_docker_client_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable) as refusal:
        await build_image()
    assert "docker.io" in refusal.value.hint


async def test_a_build_that_the_engine_refuses_says_which_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(ImageBuildFailed, match="Could not list the images"):
        await build_image()


async def test_without_registry_and_bootstrap_the_hint_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageBuildFailed, match="mmdebstrap") as refusal:
        await bootstrap_base(lambda line: None)
    assert "apt-get install mmdebstrap" in refusal.value.hint
