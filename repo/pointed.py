"""The commits that a remote repository's branches and tags point at, without fetching it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from .errors import CommitMissing, GitFailed, RepositoryMissing, SourceRefused, unread_format
from .git import git
from .mirror import COMMIT_HINT, DEFAULT_PROTOCOLS, FULL_ID

LOOK_TIMEOUT_S = 120.0
_UNWELCOME = re.compile(r"authentication failed|could not read (username|password)|permission denied|\b40[13]\b", re.I)


async def commit_at(
    url: str, ref: str, *, protocols: Collection[str] = DEFAULT_PROTOCOLS, env: Mapping[str, str] | None = None
) -> str:
    """The id that a branch or tag of `url` points at; empty: the branch that it shows first. A full id is itself.

    `RepositoryMissing` says why nothing was heard, `CommitMissing` that it has no such branch or tag.
    """
    if FULL_ID.fullmatch(ref):
        return ref
    if url.startswith("-"):
        raise SourceRefused(f"{url!r} is not a repository's address")
    names = (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}") if ref else ("HEAD",)
    asked = ("ls-remote", "--quiet", "--end-of-options", url, *names)
    try:
        found = await git(*asked, git_dir=None, cwd=Path("/"), protocols=protocols, env=env, timeout_s=LOOK_TIMEOUT_S)
    except GitFailed as e:
        raise _not_heard(url, e, protocols) from e
    listed = {name: commit for commit, _, name in (line.partition("\t") for line in found.line.splitlines())}
    commit = next((listed[name] for name in names if name in listed), None)
    if commit is None:
        raise CommitMissing(f"{url} has no branch or tag {ref or 'to start from'!r}", hint=COMMIT_HINT)
    if not FULL_ID.fullmatch(commit):
        raise unread_format(url)
    return commit


def _not_heard(url: str, failure: GitFailed, protocols: Collection[str]) -> RepositoryMissing | SourceRefused:
    if "not allowed" in failure.stderr:
        return SourceRefused(f"{url} uses a protocol that is not allowed here", hint=f"allowed: {', '.join(protocols)}")
    if _UNWELCOME.search(failure.stderr):
        hint = "name the forge whose token may read it (forge = …), and check that token; by ssh, your agent's keys"
        return RepositoryMissing(f"{url} does not let us in", hint=hint)
    hint = "check the address, and that this machine reaches it; what is gone for good comes off the file that names it"
    return RepositoryMissing(f"{url} holds no repository that can be reached", hint=hint)
