"""Errors of working with a repository, as a tree.

RepoError
├── GitMissing          no git program on this machine
├── GitFailed           git ended with an exit code that the caller did not expect
├── GitTimedOut         git was killed at its time limit
├── DiskFull            git found no room for what it was to write
├── OutputTooLarge      git wrote more than the caller wanted to hold
├── FolderMissing       git cannot be started in the folder that it was given
├── RepositoryMissing   the path or address holds no repository
│   └── RemoteDown      its server cannot be reached, or broke off: another try may help
├── CommitMissing       the repository has no such commit
├── CheckoutFailed      the files of a commit cannot be written here
├── RepositoryTooLarge  its server sends more than a repository may weigh, or than the disk has room for
├── SourceRefused       an address or a protocol that the operator does not allow
├── TreePartial         a patch that needs more of its work tree than there is
├── FilesRefused        a folder of links, or of more than a commit is made of here
├── PatternRefused      what is to be searched for is no expression
├── PatchRefused        a patch that does not apply, or is not what it says
├── BranchRefused       a branch that must not be moved
└── FolderRefused       a folder that cannot be read as one small value

A collision of two patches is no error: `repo.merge` returns it.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

UNSHALLOW_HINT = "the clone is shallow: fetch what it lacks with `git fetch --unshallow`"
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
FREE = "free some: `muster sandbox prune`; `df` says which disk it is"
STDERR_TAIL_CHARS = 2_000  # git's last words say what failed; the first are progress


class RepoError(Exception):
    """One sentence that says what, and a `hint` that says what to try next (empty when there is nothing)."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class GitMissing(RepoError):
    pass


class GitFailed(RepoError):
    def __init__(self, arguments: Sequence[str], exit_code: int, stderr: str) -> None:
        tail = stderr.strip()[-STDERR_TAIL_CHARS:]
        last_line = tail.splitlines()[-1] if tail else "no message"
        super().__init__(f"git {arguments[0]} ended with exit code {exit_code}: {last_line}")
        self.arguments = tuple(arguments)
        self.exit_code = exit_code
        self.stderr = tail


class GitTimedOut(RepoError):
    pass


class DiskFull(RepoError):
    pass


def full_disk(error: OSError, place: object) -> DiskFull | None:
    """What a full disk is among the errors of files; None for every other one."""
    return DiskFull(f"The disk is full: no space left in {place}", hint=FREE) if error.errno in NO_ROOM else None


class OutputTooLarge(RepoError):
    pass


class FolderMissing(RepoError):
    pass


class RepositoryMissing(RepoError):
    pass


class RemoteDown(RepositoryMissing):
    pass


def unread_format(place: object, object_format: str = "sha256") -> RepositoryMissing:
    """Of git's two ways to name objects, ids of 40 digits are the one that patches, mirrors and requests have here."""
    hint = "work on a copy of SHA-1: git init --bare COPY; git fast-export --all | git -C COPY fast-import"
    return RepositoryMissing(
        f"{place} names its objects by {object_format.upper()}, which Muster cannot read", hint=hint
    )


class CommitMissing(RepoError):
    pass


class CheckoutFailed(RepoError):
    pass


class RepositoryTooLarge(RepoError):
    pass


class SourceRefused(RepoError):
    pass


class FilesRefused(RepoError):
    pass


class TreePartial(RepoError):
    pass


class PatternRefused(RepoError):
    pass


class PatchRefused(RepoError):
    pass


class BranchRefused(RepoError):
    pass


class FolderRefused(RepoError):
    pass
