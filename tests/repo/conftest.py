"""Real repositories in temporary folders. The user's git is plain git, with an identity and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from repo.bundle import bundle
from repo.checkout import checkout, index_of
from repo.mirror import Mirror, mirror_of
from repo.patch import Patch, extract_patch

IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass(frozen=True)
class UserRepository:
    root: Path

    def git(self, *arguments: str, text: str | None = None) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "LC_ALL": "C"} | IDENTITY
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, input=text)
        return done.stdout.strip("\n")

    def commit(self, files: dict[str, str | bytes], message: str = "change") -> str:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@dataclass(frozen=True)
class Work:
    """A mirror, and a work tree with the files of `base` in which a test may do what an agent might."""

    mirror: Mirror
    base: str
    tree: Path
    seed: Path

    async def patch(self, *, allowed: Callable[[str], bool] | None = None, **limits: int) -> Patch:
        return await extract_patch(
            git_dir=self.mirror.git_dir,
            base=self.base,
            work_tree=self.tree,
            index_seed=self.seed,
            allowed=allowed,
            **limits,
        )


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[[str], UserRepository]:
    def make(name: str) -> UserRepository:
        repository = UserRepository(tmp_path / name)
        repository.root.mkdir(parents=True)
        repository.git("init", "--quiet", "--initial-branch=main")
        return repository

    return make


@pytest.fixture
def user(make_repository: Callable[[str], UserRepository]) -> UserRepository:
    return make_repository("user")


@pytest.fixture
def mirror_at(tmp_path: Path):
    async def make(repository: UserRepository, commit: str) -> Mirror:
        file = tmp_path / f"{commit}.bundle"
        await bundle(repository.root, commit, file)
        return await mirror_of(tmp_path / "cache", bundle=file, commit=commit)

    return make


@pytest.fixture
def work_on(tmp_path: Path, user: UserRepository, mirror_at):
    """Commit `files` and hand out a checkout of its own to change (a sandbox would have an overlay on it)."""

    async def make(files: dict[str, str | bytes], **links: str) -> Work:
        for name, target in links.items():
            (user.root / name).symlink_to(target)
        base = user.commit(files)
        mirror = await mirror_at(user, base)
        tree = await checkout(mirror, base, tmp_path / "cache")
        return Work(mirror, base, tree, index_of(tree))

    return make
