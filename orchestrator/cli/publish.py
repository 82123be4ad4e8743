"""Results that become a branch of the user's own repository. Only the command line writes there."""

from __future__ import annotations

import hashlib
from pathlib import Path

from envelope.messages import TaskResult
from repo.local import branch_tip
from repo.mirror import mirror_of
from repo.publish import publish_branch
from repo.temporary import temporary_folder

from ..client import Muster


async def publish_bundle(
    muster: Muster, result: TaskResult, *, name: str, repository: Path, branch: str, commit: str
) -> None:
    """Set `branch` of `repository` to `commit`, which comes in the result's bundle `name`.

    A branch that still stands where we set it moves anywhere; others only forward. `BranchRefused` leaves all as it is.
    """
    ours = _mark(muster.settings.state_dir, repository, branch)
    with temporary_folder("publish") as folder:
        packed = folder / "merged.bundle"
        packed.write_bytes(await muster.attachment(result, name))
        mirror = await mirror_of(folder, bundle=packed, commit=commit)
        tip = await branch_tip(repository, branch)
        expected = tip if tip == _read(ours) else None
        await publish_branch(repository, mirror, branch, commit, expected_old=expected)
    ours.parent.mkdir(parents=True, exist_ok=True)
    ours.write_text(commit)


def _mark(state_dir: Path, repository: Path, branch: str) -> Path:
    """Where we note what we set a branch to."""
    name = hashlib.sha256(f"{repository.resolve()}\n{branch}".encode()).hexdigest()[:32]
    return state_dir / "branches" / name


def _read(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""
