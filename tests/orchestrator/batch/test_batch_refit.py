"""A patch on another commit: which files have changed since it was made. On diffs that real git writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.batch.refit import refuse_other_files
from orchestrator.gating.diff import parts_of
from repo.errors import PatchRefused
from repo.mirror import Mirror

ODD = 'b c"ü.py'


def git(root: Path, *words: str) -> bytes:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(["git", *identity, "-C", str(root), *words], check=True, capture_output=True).stdout


def rewrite(root: Path, word: str, *paths: str) -> None:
    for path in paths:
        if path == "link":
            (root / path).unlink(missing_ok=True)
            (root / path).symlink_to(word)
        else:
            (root / path).write_bytes(f"{word}\n".encode() * 9 + b"\0" * (path == "binary"))


def commit(root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    return git(root, "rev-parse", "HEAD").decode().strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    rewrite(tmp_path, "old", "a.py", ODD, "link", "binary", "gone.py")
    rewrite(tmp_path, "stays", "moved.py", "other.py")
    commit(tmp_path)
    return tmp_path


@pytest.fixture
def diff(root: Path) -> bytes:
    """Of each kind of change; the work tree is as it was."""
    rewrite(root, "new", "a.py", ODD, "link", "binary", "made.py")
    (root / "gone.py").unlink()
    (root / "moved.py").rename(root / "there.py")
    git(root, "add", "-A")
    made = git(root, "diff", "--cached", "-M", "--binary", "--full-index", "HEAD")
    git(root, "reset", "-q", "--hard")
    return made


@pytest.mark.parametrize("path", ["a.py", ODD, "link", "binary", "gone.py"])
async def test_a_file_that_has_changed_since_is_named(root, diff, path):
    rewrite(root, "else", path)
    changed = commit(root)

    with pytest.raises(PatchRefused) as caught:
        await refuse_other_files(Mirror(root / ".git"), changed, parts_of(diff))

    assert str(caught.value) == f"{path} is no longer what the change was made for"


async def test_what_the_patch_does_not_touch_may_have_changed(root, diff):
    rewrite(root, "else", "other.py")

    assert await refuse_other_files(Mirror(root / ".git"), commit(root), parts_of(diff)) is None


async def test_a_file_that_is_gone_is_named(root, diff):
    (root / "a.py").unlink()

    with pytest.raises(PatchRefused, match=r"a\.py is no longer"):
        await refuse_other_files(Mirror(root / ".git"), commit(root), parts_of(diff))
