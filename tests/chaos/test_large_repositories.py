"""Repositories of 20,000 files and of 2 GB, from a bundle to a patch of a sandbox."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.figures import report
from lab.schedule import SOAK

from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import Mirror, mirror_of
from repo.patch import apply_to_tree
from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image import DEFAULT_IMAGE
from sandbox.uids import AGENT_GID, AGENT_UID

pytestmark = [
    pytest.mark.skipif(not SOAK, reason="make soak runs it"),
    pytest.mark.timeout(3600),
    pytest.mark.docker,
]
MIB = 1024 * 1024
FILES, FOLDERS = 20_000, 200
LARGE_FILES, LARGE_BYTES = 20, 100 * MIB
EDIT = "printf 'new\\n' > f0/n0; git mv f1/n1 f1/moved; rm f2/n2; echo more > added; git status --porcelain | wc -l"


def many_files() -> Iterator[bytes]:
    for n in range(FILES):
        yield b"M 100644 inline f%d/n%d\n" % (n % FOLDERS, n)
        content = b"line %d\n" % n * 40
        yield b"data %d\n%s\n" % (len(content), content)


def large_files() -> Iterator[bytes]:
    """They differ in their first bytes; the rest packs to nothing."""
    yield b"M 100644 inline f0/n0\ndata 4\nold\n\n"
    yield b"M 100644 inline f1/n1\ndata 7\nto move\n" + b"M 100644 inline f2/n2\ndata 5\nto go\n"
    for n in range(LARGE_FILES):
        head = b"%020d" % n
        yield b"M 100644 inline large/%d\ndata %d\n%s" % (n, LARGE_BYTES, head)
        yield bytes(LARGE_BYTES - len(head)) + b"\n"


async def mirrored(folder: Path, files: Iterator[bytes]) -> tuple[Mirror, str]:
    source = folder / "source.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(source)], check=True)
    importing = subprocess.Popen(["git", "-C", str(source), "fast-import", "--quiet"], stdin=subprocess.PIPE)
    assert importing.stdin is not None
    importing.stdin.write(b"commit refs/heads/main\ncommitter t <t@localhost> 1700000000 +0000\ndata 5\nstart\n")
    for part in files:
        importing.stdin.write(part)
    importing.stdin.close()
    assert importing.wait() == 0
    commit = subprocess.check_output(["git", "-C", str(source), "rev-parse", "main"], text=True).strip()
    await bundle(source, commit, folder / "bundle")
    return await mirror_of(folder / "cache", bundle=folder / "bundle", commit=commit), commit


@pytest.mark.parametrize("kind", ["20,000 files", "2 GB"])
async def test_a_large_repository_goes_all_the_way(kind: str, tmp_path: Path):
    mirror, commit = await mirrored(tmp_path, many_files() if kind == "20,000 files" else large_files())
    started_s = time.monotonic()
    tree = await checkout(mirror, commit, tmp_path / "cache", owner=(AGENT_UID, AGENT_GID))
    checked_out_s = time.monotonic()
    async with DockerDriver(tmp_path / "state", "test-large") as driver:
        spec = SandboxSpec(DEFAULT_IMAGE, tree, mirror.git_dir, commit)
        async with await driver.open(spec) as sandbox:
            opened_s = time.monotonic()
            edited = await sandbox.exec(Command(EDIT))
            before_s = time.monotonic()
            patch = await sandbox.patch(lambda path: True)
            ended_s = time.monotonic()

    assert edited.output.split()[-1] == b"4"
    changes = {(change.status, change.path) for change in patch.files}
    assert changes == {("M", "f0/n0"), ("R", "f1/moved"), ("D", "f2/n2"), ("A", "added")}
    assert patch.warnings == ()
    assert await apply_to_tree(mirror.git_dir, commit, patch.diff) == patch.tree
    seconds = {
        "checkout_s": checked_out_s - started_s,
        "open_s": opened_s - checked_out_s,
        "patch_s": ended_s - before_s,
    }
    report(f"large repository, {kind}", **{name: round(value, 2) for name, value in seconds.items()})
