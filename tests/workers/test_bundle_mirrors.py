"""Whose repository a bundle gives: its own, whatever commit is named beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envelope.messages import Workspace
from repo.cache import Use
from repo.errors import RepoError
from transport.blobs.owners import acting_for, acting_tenant
from transport.errors import NotFound
from transport.memory import MemoryTransport
from workers.sandboxes.workspace import Workspaces


def bundle_of(folder: Path, text: str) -> tuple[bytes, str]:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
        return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    folder.mkdir()
    git("init", "--quiet", "--initial-branch", "main")
    (folder / "secret.txt").write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "-m", text)
    git("bundle", "create", "--quiet", "it.bundle", "main")
    return (folder / "it.bundle").read_bytes(), git("rev-parse", "HEAD").strip()


async def test_a_commit_of_anothers_bundle_is_not_found_by_its_name(tmp_path):
    blobs = MemoryTransport().blobs
    theirs, commit = bundle_of(tmp_path / "theirs", "for nobody else")
    own, _ = bundle_of(tmp_path / "own", "mine")
    workspaces = Workspaces(None, blobs, tmp_path / "cache", "image")  # type: ignore[arg-type]  # no sandbox is opened

    mirror, found = await workspaces.source(Workspace(bundle=await blobs.put(theirs), base=commit), Use())
    assert found == commit and mirror.git_dir.exists()

    for other in (own, b"no bundle at all"):
        with pytest.raises(RepoError):
            await workspaces.source(Workspace(bundle=await blobs.put(other), base=commit), Use())


async def test_a_bundle_that_lies_here_for_another_tenant_is_none(tmp_path):
    blobs = MemoryTransport().blobs
    theirs, commit = bundle_of(tmp_path / "theirs", "for nobody else")
    workspaces = Workspaces(None, blobs, tmp_path / "cache", "image")  # type: ignore[arg-type]  # no sandbox is opened
    with acting_for("ann"):
        workspace = Workspace(bundle=await blobs.put(theirs), base=commit)
        await workspaces.source(workspace, Use(acting_tenant()))

    with acting_for("ben"), pytest.raises(NotFound):
        await workspaces.source(workspace, Use(acting_tenant()))


async def test_a_commit_of_another_folder_is_not_found_by_its_name(tmp_path):
    _, commit = bundle_of(tmp_path / "theirs", "for nobody else")
    bundle_of(tmp_path / "own", "mine")
    allowed = (tmp_path / "theirs", tmp_path / "own")
    workspaces = Workspaces(None, MemoryTransport().blobs, tmp_path / "cache", "image", allowed)  # type: ignore[arg-type]

    mirror, found = await workspaces.source(Workspace(path=str(allowed[0]), base=commit[:7]), Use())
    assert found == commit and mirror.git_dir.exists()

    for name in (commit, commit[:7]):
        with pytest.raises(RepoError):
            await workspaces.source(Workspace(path=str(allowed[1]), base=name), Use())
