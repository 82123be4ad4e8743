"""A real engine, the real image, real repositories. Every test has a driver of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import mirror_of
from sandbox.base import Command, ExecResult, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image.build import build_image
from sandbox.opened import OpenSandbox
from sandbox.workspace import AGENT_GID, AGENT_UID

Run = Callable[..., Awaitable[ExecResult]]


@pytest.fixture(scope="session")
def image() -> str:
    """The image as it is shipped; built only where it is missing."""
    tag = "muster-sandbox:latest"
    asyncio.run(build_image(tag))
    return tag


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def driver(tmp_path: Path, owner: str) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(tmp_path / "state", owner) as opened:
        yield opened
    assert of_owner(owner) == []
    assert list((tmp_path / "state").glob("sandboxes/*")) == []


@pytest.fixture
async def sandbox(driver: DockerDriver, image: str) -> AsyncIterator[OpenSandbox]:
    async with await driver.open(SandboxSpec(image)) as opened:
        yield opened


@pytest.fixture
def run(sandbox: OpenSandbox) -> Run:
    async def run_in_sandbox(command: str, **options: object) -> ExecResult:
        return await sandbox.exec(Command(command, **options))  # pyright: ignore[reportArgumentType]

    return run_in_sandbox


@pytest.fixture
def engine_lists() -> Callable[[str], list[str]]:
    """Names an owner's containers and volumes."""
    return of_owner


def of_owner(owner: str) -> list[str]:
    by_owner = ["--filter", f"label=muster.owner={owner}", "--quiet"]
    listings = (["docker", "ps", "--all", *by_owner], ["docker", "volume", "ls", *by_owner])
    return [line for listing in listings for line in subprocess.check_output(listing, text=True).split()]


PROJECT = {
    "src/app.py": "def answer():\n    return 41\n",
    "src/other.py": "x = 1\n",
    "tests/test_app.py": "from src.app import answer\n\n\ndef test_answer():\n    assert answer() == 41\n",
    ".gitignore": "*.log\n__pycache__/\n.pytest_cache/\n",
    "README.md": "# Project\n",
}


@pytest.fixture
async def project(tmp_path: Path, image: str) -> SandboxSpec:
    """A small project as a worker would open it: committed, mirrored, checked out."""
    root = tmp_path / "user"
    for name, content in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    for words in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    commit = subprocess.check_output(["git", "-C", str(root), "rev-parse", "HEAD"], text=True).strip()
    await bundle(root, commit, tmp_path / "project.bundle")
    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "project.bundle", commit=commit)
    files = await checkout(mirror, commit, tmp_path / "cache", owner=(AGENT_UID, AGENT_GID))
    return SandboxSpec(image, files, mirror.git_dir, commit)
