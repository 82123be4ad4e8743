"""Images beside the default one: with compilers, by one's own Dockerfile, and as a folder for bubblewrap."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.base import SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver
from sandbox.errors import ImageBuildFailed, ImageMissing
from sandbox.first_use import try_image
from sandbox.image import CC_IMAGE, DEFAULT_IMAGE
from sandbox.image.build import HERE
from sandbox.image.root import CONTENT, build_root, root_hash
from sandbox.image.variants import build_own


@pytest.fixture
def tag() -> Iterator[str]:
    name = f"muster-test-own:{uuid.uuid4().hex}"
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


def stand_in(root: Path, content: str) -> None:
    """What `build_root` leaves, with nothing in it."""
    (root / "usr").mkdir(parents=True)
    root.with_name(f"{root.name}{CONTENT}").write_text(content)


async def test_a_root_that_was_built_is_what_the_default_image_means(bubblewrap: BubblewrapDriver):
    roots = bubblewrap.roots
    assert roots.layers(DEFAULT_IMAGE) == [Path("/")]
    assert "muster sandbox build --driver bubblewrap" in roots.report().hint
    on_the_host = await roots.image_id(DEFAULT_IMAGE)

    stand_in(roots.root_of(DEFAULT_IMAGE), root_hash(cc=False))

    assert roots.layers(DEFAULT_IMAGE) == [roots.root_of(DEFAULT_IMAGE)]
    assert roots.layers("host") == [Path("/")]
    assert await roots.image_id(DEFAULT_IMAGE) != on_the_host
    assert roots.report().hint == ""


async def test_compilers_that_were_not_built_are_missing_and_never_the_hosts(bubblewrap: BubblewrapDriver):
    with pytest.raises(ImageMissing, match=CC_IMAGE) as missing:
        await bubblewrap.open(SandboxSpec(CC_IMAGE))
    assert "--driver bubblewrap --variant cc" in missing.value.hint


async def test_a_root_is_made_anew_only_when_what_it_is_made_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    root = tmp_path / "root"
    stand_in(root, root_hash(cc=False))
    await build_root(root)

    with pytest.raises(ImageBuildFailed, match="mmdebstrap") as refused:
        await build_root(root, cc=True)
    assert "apt-get install mmdebstrap" in refused.value.hint
    assert root.is_dir()


@pytest.mark.docker
async def test_a_dockerfile_of_ones_own_is_built_and_can_be_a_sandbox(
    driver: DockerDriver, image: str, tmp_path: Path, tag: str
):
    (tmp_path / "Dockerfile.mine").write_text(f"FROM {image}\nUSER root\nRUN mkdir /mine\nCOPY note /mine/note\n")
    (tmp_path / "note").write_text("hello\n")
    said: list[str] = []

    assert (await build_own(tmp_path / "Dockerfile.mine", tag, on_progress=said.append)).startswith("sha256:")
    assert await try_image(driver, tag) == ()
    async with await driver.open(SandboxSpec(tag)) as sandbox:
        assert await sandbox.read("/mine/note") == b"hello\n"
    assert tag in said[0]


@pytest.mark.docker
@pytest.mark.parametrize(("text", "said"), [(None, "no Dockerfile"), ("FROM scratch\nNONSENSE\n", "(?i)nonsense")])
async def test_a_dockerfile_that_cannot_be_built_is_told(tmp_path: Path, tag: str, text: str | None, said: str):
    if text is not None:
        (tmp_path / "Dockerfile").write_text(text)
    with pytest.raises(ImageBuildFailed, match=said) as refused:
        await build_own(tmp_path / "Dockerfile", tag)
    assert refused.value.hint


def test_folder_and_image_are_made_of_the_same():
    """What the Dockerfile does stands a second time in root.py, because there is no engine to read it."""
    steps = (HERE / "Dockerfile").read_text()
    for step in ("useradd --uid 10001 --user-group --create-home --shell /bin/bash agent", "python3 -m venv /opt/venv"):
        assert step in steps and step in (HERE / "root.py").read_text().replace("{AGENT_UID}", "10001")
