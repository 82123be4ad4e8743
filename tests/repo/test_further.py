"""What a second diff changes beyond a first one of the same commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from repo.errors import CommitMissing, PatchRefused
from repo.further import Side, further
from repo.local import apply_diff

IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(root: Path, *words: str) -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), **IDENTITY}
    return subprocess.run(["git", "-C", root, *words], capture_output=True, check=True, env=environment).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "gone.txt").write_text("gone\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        git(tmp_path, *words)
    return tmp_path


def diff_of(root: Path) -> bytes:
    git(root, "add", "-A")
    found = git(root, "diff", "--cached", "--binary", "--full-index")
    git(root, "reset", "-q", "--hard")
    return found


async def test_it_fits_where_the_first_was_applied_and_shows_each_file(root: Path):
    base = git(root, "rev-parse", "HEAD").decode().strip()
    (root / "a.txt").write_text("two\n")
    first = diff_of(root)
    (root / "a.txt").write_text("three\n")
    (root / "gone.txt").unlink()
    (root / "image").write_bytes(b"\x89PNG\x00\xff")
    second = diff_of(root)

    found = await further(root, base, first, second)
    await apply_diff(first, root)
    await apply_diff(found.diff, root)

    assert found.count == 3
    assert {side.path: side for side in found.sides} == {
        "a.txt": Side("a.txt", "two\n", "three\n"),
        "gone.txt": Side("gone.txt", "gone\n", None),
        "image": Side("image", None, None, unread=True),
    }
    assert (root / "a.txt").read_text() == "three\n" and (root / "image").read_bytes() == b"\x89PNG\x00\xff"
    assert not (root / "gone.txt").exists()
    assert (await further(root, base, second, second)).diff == b""


async def test_what_is_no_diff_of_the_base_and_a_base_that_is_gone_are_refused(root: Path):
    base = git(root, "rev-parse", "HEAD").decode().strip()

    with pytest.raises(PatchRefused):
        await further(root, base, b"", b"no diff\n")
    with pytest.raises(CommitMissing, match="no longer has the commit"):
        await further(root, "0" * 40, b"", b"")
