"""Results that become a branch of the user's own repository. Only the command line writes there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from envelope.messages import TaskResult
from repo.errors import BranchRefused, RepoError
from repo.local import branch_tip
from repo.mirror import mirror_of
from repo.publish import publish_branch, require_forward, require_settable
from repo.temporary import temporary_folder

from ..client import Muster
from ..settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """A branch of a local repository. `onto_default`: it may be what a bare one's clones begin with."""

    repository: Path
    branch: str
    onto_default: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """A commit in an attachment of a result."""

    name: str
    commit: str


async def publish_bundle(muster: Muster, result: TaskResult, packed: Packed, target: Target) -> None:
    """A branch that still stands where we set it moves anywhere; others only forward. `BranchRefused` leaves all as it
    is."""
    repository, branch, commit = target.repository, target.branch, packed.commit
    ours = _mark(muster.settings.state_dir, repository, branch)
    with temporary_folder("publish") as folder:
        bundle = folder / "merged.bundle"
        bundle.write_bytes(await muster.attachment(result, packed.name))
        mirror = await mirror_of(folder, bundle=bundle, commit=commit)
        tip = await branch_tip(repository, branch)
        expected = tip if tip == _read(ours) else None
        await publish_branch(
            repository, mirror, branch, commit, expected_old=expected, onto_default=target.onto_default
        )
    ours.parent.mkdir(parents=True, exist_ok=True)
    ours.write_text(commit)


async def require_free(settings: Settings, target: Target, start: str) -> None:
    """`BranchRefused` for a branch that no successor of the commit `start` could be set to: said before any work."""
    await require_settable(target.repository, target.branch, onto_default=target.onto_default)
    ours = _read(_mark(settings.state_dir, target.repository, target.branch))
    await require_forward(target.repository, target.branch, start, ours=ours)


def not_set(error: RepoError | OSError, branch: str, publish: str) -> BranchRefused:
    """Of a branch that stayed where it was, while the change is kept; `publish` is the command that takes it."""
    why = str(error) if isinstance(error, RepoError) else f"The branch {branch} cannot be set: {error.strerror}"
    hint = error.hint if isinstance(error, RepoError) else ""
    return BranchRefused(why, hint=f"{hint}; under another name: {publish} --branch NAME".removeprefix("; "))


def _mark(state_dir: Path, repository: Path, branch: str) -> Path:
    """Where we note what we set a branch to."""
    name = hashlib.sha256(f"{repository.resolve()}\n{branch}".encode()).hexdigest()[:32]
    return state_dir / "branches" / name


def _read(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""
