"""The image: made of what it says, and made again only when that changes."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import EngineUnavailable, ImageBuildFailed
from sandbox.image.build import CONTENT_LABEL, HERE, bootstrap_base, build_image, content_hash
from sandbox.image.root import build_root

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


@pytest.fixture
def empty_archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a Debian archive on loopback was asked for; it has nothing. Builds use it as of one day."""
    asked: list[str] = []

    class Archive(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments: object): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Archive) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MUSTER_BUILD_ARCHIVE", f"http://127.0.0.1:{server.server_port}/archive/")
        monkeypatch.setenv("MUSTER_BUILD_SNAPSHOT", "20261101T000000Z")
        yield asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("bubblewrap", [False, True])
async def test_a_build_of_one_day_asks_debians_archive_of_that_day_alone(
    empty_archive: list[str], tmp_path: Path, bubblewrap: bool
):
    build = build_root(tmp_path / "root") if bubblewrap else bootstrap_base(lambda line: None)
    with pytest.raises(ImageBuildFailed, match="Could not bootstrap Debian"):
        await build
    assert {"/archive/debian/20261101T000000Z/dists/bookworm/InRelease"} < set(empty_archive)
    assert {path.partition("/dists/")[0] for path in empty_archive} == {
        "/archive/debian/20261101T000000Z",
        "/archive/debian-security/20261101T000000Z",
    }


def test_an_image_of_another_day_is_another(monkeypatch: pytest.MonkeyPatch):
    newest = content_hash()
    monkeypatch.setenv("MUSTER_BUILD_ARCHIVE", "http://127.0.0.1:9/archive")
    days = set()
    for day in ("20261101T000000Z", "20261102T000000Z"):
        monkeypatch.setenv("MUSTER_BUILD_SNAPSHOT", day)
        days.add(content_hash())
    assert len(days - {newest}) == 2


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"BASE": "debian:bookworm-slim"}, "no image by its digest"),
        ({"BASE": "--help@sha256:" + "0" * 64}, "no image by its digest"),
        ({"SNAPSHOT": "yesterday", "ARCHIVE": "http://127.0.0.1:9/archive"}, "no time"),
        ({"SNAPSHOT": "20261101T000000Z"}, "go together"),
        ({"ARCHIVE": "http://127.0.0.1:9/archive"}, "go together"),
        ({"SNAPSHOT": "20261101T000000Z", "ARCHIVE": "http://a [trusted=yes] b"}, "go together"),
        ({"SNAPSHOT": "20261101T000000Z", "BASE": "debian@sha256:" + "0" * 64}, "both say"),
    ],
)
async def test_what_cannot_be_repeated_is_refused(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], because: str):
    for name, value in given.items():
        monkeypatch.setenv(f"MUSTER_BUILD_{name}", value)
    with pytest.raises(ImageBuildFailed, match=because) as refusal:
        await build_image()
    assert refusal.value.hint


async def test_a_base_by_its_digest_is_that_one_or_none(monkeypatch: pytest.MonkeyPatch):
    """No bootstrapped tree stands in for it, and no image of its name."""
    monkeypatch.setenv("MUSTER_BUILD_BASE", "127.0.0.1:9/debian@sha256:" + "0" * 64)
    with pytest.raises(ImageBuildFailed, match="Could not pull the base image"):
        await build_image("muster-test-never:latest")
