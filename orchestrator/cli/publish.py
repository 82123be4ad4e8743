"""Results that become a branch or a change in the user's own repository. Only the command line writes there."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from envelope.messages import TaskResult
from repo.errors import PatchRefused
from repo.git import git
from repo.local import locate
from repo.mirror import mirror_of
from repo.publish import publish_branch

from ..client import Muster


async def publish_bundle(
    muster: Muster, result: TaskResult, *, name: str, repository: Path, branch: str, commit: str
) -> None:
    """Set `branch` of `repository` to `commit`, which comes in the result's bundle `name`.

    A branch that still stands where we set it moves anywhere; others only forward. `BranchRefused` leaves all as it is.
    """
    ours = _mark(muster.settings.state_dir, repository, branch)
    with tempfile.TemporaryDirectory(prefix="muster-publish-") as folder:
        packed = Path(folder) / "merged.bundle"
        packed.write_bytes(await muster.attachment(result, name))
        mirror = await mirror_of(Path(folder), bundle=packed, commit=commit)
        expected = await _if_still_there(repository, branch, _read(ours))
        await publish_branch(repository, mirror, branch, commit, expected_old=expected)
    ours.parent.mkdir(parents=True, exist_ok=True)
    ours.write_text(commit)


def _mark(state_dir: Path, repository: Path, branch: str) -> Path:
    """Where we note what we set a branch to."""
    name = hashlib.sha256(f"{repository.resolve()}\n{branch}".encode()).hexdigest()[:32]
    return state_dir / "branches" / name


def _read(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""


async def _if_still_there(repository: Path, branch: str, ours: str) -> str | None:
    place = await locate(repository)
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}")
    now = (await git(*words, git_dir=place.git_dir, ok=(0, 1, 128))).line
    return now if now and now == ours else None


async def apply_diff(diff: bytes, repository: Path, *, check_only: bool = False) -> Path:
    """Apply a diff to the files of a work tree, all of it or nothing; its root comes back.

    `PatchRefused` when the diff does not fit the files as they are now.
    """
    place = await locate(repository)
    words = ("apply", "--whitespace=nowarn", *(["--check"] if check_only else []), "-")
    done = await git(*words, git_dir=place.git_dir, work_tree=place.root, cwd=place.root, stdin=diff, ok=(0, 1, 128))
    if done.exit_code:
        why = (done.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix("error: ")
        hint = "see it with `muster task diff`, and check out the commit that it was made from"
        raise PatchRefused(f"the change does not fit the files in {place.root}: {why}", hint=hint)
    return place.root
