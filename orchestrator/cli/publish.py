"""Results that become a branch of the user's own repository. Only the command line writes there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envelope.errors import FREE, NO_ROOM
from envelope.messages import TaskResult
from repo.errors import BranchRefused, DiskFull, RepoError
from repo.local import branch_tip
from repo.mirror import mirror_of
from repo.publish import publish_branch, require_forward, require_settable
from repo.temporary import temporary_folder
from transport.errors import TransportError, Unreachable
from transport.state_folder import private_folder

from ..client import Muster
from ..settings import Settings
from ..words import counted
from .console import warn

NotSetCause = RepoError | TransportError | OSError
NotSet = BranchRefused | Unreachable  # another try may help the second


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
    try:
        private_folder(ours.parent)
        ours.write_text(commit)
    except OSError as e:
        warn(f"the branch {branch} is set, but not noted as ours: {_words(e)}", "from now on it only moves forward")


async def require_free(settings: Settings, target: Target, start: str) -> None:
    """`BranchRefused` for a branch that no successor of the commit `start` could be set to: said before any work."""
    await require_settable(target.repository, target.branch, onto_default=target.onto_default)
    ours = _read(_mark(settings.state_dir, target.repository, target.branch))
    await require_forward(target.repository, target.branch, start, ours=ours)


def not_set(error: NotSetCause, branch: str, take: str) -> NotSet:
    """Of a branch that stayed where it was, while the change is kept; `take` says how to have it all the same."""
    why = str(error) if isinstance(error, RepoError) else f"The branch {branch} cannot be set: {_words(error)}"
    if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return BranchRefused(why, hint=f"{FREE}. Then {take.partition(': ')[2]}")  # another name takes as much
    hint = "" if isinstance(error, OSError) else error.hint
    told = Unreachable if isinstance(error, Unreachable) else BranchRefused
    return told(why, hint=f"{hint}; {take} --branch NAME".removeprefix("; "))


def first_of(refused: Mapping[str, NotSet]) -> NotSet:
    """One error for all of them, by the names of their repositories."""
    name, error = next(iter(refused.items()))
    more = f" (and {counted(len(refused) - 1, 'other')})" if len(refused) > 1 else ""
    return type(error)(f"{name}: {error}{more}", hint=error.hint)


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _mark(state_dir: Path, repository: Path, branch: str) -> Path:
    """Where we note what we set a branch to."""
    name = hashlib.sha256(f"{repository.resolve()}\n{branch}".encode()).hexdigest()[:32]
    return state_dir / "branches" / name


def _read(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""
