"""A task on a repository that is not as it should be: its proper end, in one sentence with a hint."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import Workspace
from repo.bundle import bundle

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def test_a_base_that_does_not_exist_is_the_tasks_end(hands: Any, workspace: Workspace):
    missing = workspace.model_copy(update={"base": "0" * 40})
    result = await hands.result(hands.recipe("true", workspace=missing))

    [error] = result.errors
    assert (result.status, error.code, result.attempt) == (State.ERROR, ErrorCode.REPOSITORY, 1)
    assert "no commit '0000" in error.message and "push it" in error.hint


async def test_a_checkout_that_fails_is_the_tasks_end(hands: Any, repository: Path, tmp_path: Path):
    def git(*words: str, said: str = "") -> str:
        command = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@localhost", *words]
        return subprocess.run(command, input=said, check=True, capture_output=True, text=True).stdout.strip()

    blob = git("hash-object", "-w", "--stdin", said="x")
    commit = git("commit-tree", git("mktree", "-z", said=f"100644 blob {blob}\t{'n' * 300}\0"), "-m", "odd")
    git("update-ref", "refs/heads/odd", commit)
    await bundle(repository, commit, tmp_path / "odd.bundle")
    ref = await hands.transport.blobs.put((tmp_path / "odd.bundle").read_bytes())

    result = await hands.result(hands.recipe("true", workspace=Workspace(bundle=ref, base=commit)))

    [error] = result.errors
    assert (result.status, error.code, result.attempt) == (State.ERROR, ErrorCode.REPOSITORY, 1)
    assert "cannot be written" in error.message and "rename such a path" in error.hint
    assert "\n" not in error.message


async def test_what_lies_in_a_repository_of_its_own_or_a_submodule_is_in_the_patch_or_a_warning(
    hands: Any, repository: Path, pack: Any
):
    link = ["update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub"]
    subprocess.run(["git", "-C", str(repository), *link], check=True)
    (repository / "sub").mkdir()
    where = await pack({"other.py": "X = 2\n"})
    lines = "git init -q inner; echo 1 > inner/a; mkdir -p sub; echo 2 > sub/b; printf 3 > 'new\nline'"
    request = hands.recipe(lines, workspace=where)
    result = await hands.result(request)

    assert result.status is State.COMPLETED
    assert {change.path for change in result.patch.files} == {"inner/a", "new\nline"}
    warnings = [event.message for event in await hands.events(request.trace_id, "warning")]
    assert "inner is a repository of its own: its files were collected, its history not" in warnings
    assert "sub is a submodule: what changed in it was left out" in warnings
