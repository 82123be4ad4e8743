"""A local repository packed to travel: one file with the full history of one commit."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from .errors import UNSHALLOW_HINT, CommitMissing, GitFailed, RepositoryMissing, unread_format
from .git import MAX_STRANGE_MEMORY_BYTES, git
from .local import Place, locate
from .scratch import Scratch, ends_in, scratch, write_ends

BASE_REF = "refs/muster/base"
SHALLOW_REFS = "refs/muster/shallow/"  # where a shallow history ends: a bundle has no other place to say so
SHA256, MAX_HEAD_BYTES = b"@object-format=sha256", 4096
BUNDLE_TIMEOUT_S = 1800.0


async def bundle(repository: Path | Place, commit: str, target: Path) -> None:
    """Write the history of `commit` to `target`, whole or not at all. Only objects of `repository` are read.

    A shallow clone's bundle says where its history ends, and `unbundle` makes a mirror that ends there too. A partial
    clone (`--filter`) travels in the same way: it has the files of what is checked out, and seldom more.
    """
    place = repository if isinstance(repository, Place) else await locate(repository)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    ends = await history_ends(place, commit)
    with scratch(place.objects) as own:
        write_ends(own.git_dir, ends)
        base = await _commit_in(own, place, commit)
        reached = set((await own.git("rev-list", "--max-parents=0", base)).line.split()) if ends else set[str]()
        refs = {BASE_REF: base} | {SHALLOW_REFS + end: end for end in sorted(ends & reached)}
        for ref, value in refs.items():  # a file each, and no process: the git directory is ours alone
            (own.git_dir / ref).parent.mkdir(parents=True, exist_ok=True)
            (own.git_dir / ref).write_text(f"{value}\n")
        # One thread: the same repository then gives the same bytes, and its blob is stored once.
        write = ("bundle", "create", "--quiet", str(part.absolute()), *refs)
        try:
            await own.git(*write, configuration=("pack.threads=1",), timeout_s=BUNDLE_TIMEOUT_S)
            part.replace(target)
        except GitFailed as e:
            if not _is_partial(place):
                raise
            message = f"The repository {place.root} is a partial clone, and lacks files of {base[:12]}"
            raise CommitMissing(message, hint="fetch the rest: git fetch --refetch --no-filter") from e
        finally:
            part.unlink(missing_ok=True)


async def history_ends(place: Place, commit: str) -> set[str]:
    """Where this clone's history is cut: at a shallow clone's boundary, and in a partial one at the youngest commits of
    its remote below `commit`, whose own files are all that it need have."""
    ends = ends_in(place.common_dir)
    if not _is_partial(place):
        return ends
    with scratch(place.objects) as own:
        base = await _commit_in(own, place, commit)
        own_commits = ("rev-list", "--exclude-promisor-objects", "--parents", base)
        listed = await own.git(*own_commits, configuration=("remote.nowhere.promisor=true",))
    parents = {commit: above for commit, *above in (line.split() for line in listed.line.splitlines())}
    return ends | ({each for above in parents.values() for each in above if each not in parents} if parents else {base})


def _is_of_sha256(source: Path) -> bool:
    """False for a file that cannot be read: git has said so."""
    try:
        with source.open("rb") as file:
            return SHA256 in file.read(MAX_HEAD_BYTES).partition(b"\n\n")[0].split(b"\n")
    except OSError:
        return False


def _is_partial(place: Place) -> bool:
    return any(place.objects.glob("pack/*.promisor"))


async def _commit_in(own: Scratch, place: Place, commit: str) -> str:
    known = await own.git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"), ok=(0, 1, 128)
    )
    if known.exit_code:
        hint = UNSHALLOW_HINT if ends_in(place.common_dir) else ""
        raise CommitMissing(f"The repository {place.root} has no commit {commit}", hint=hint)
    return known.line.splitlines()[-1]


async def unbundle(git_dir: Path, source: Path) -> None:
    """Take a bundle's objects into the bare repository `git_dir` (the caller holds its lock)."""
    # From the caller's folder, so that a relative path means what the caller means.
    take = ("bundle", "unbundle", str(source))
    try:
        taken = await git(
            *take,
            git_dir=git_dir,
            cwd=Path(),
            timeout_s=BUNDLE_TIMEOUT_S,
            max_memory_bytes=MAX_STRANGE_MEMORY_BYTES,
        )
        listed = taken.line.splitlines()
    except GitFailed as e:
        if await asyncio.to_thread(_is_of_sha256, source):
            raise unread_format(f"The bundle {source.name}") from e
        raise RepositoryMissing(f"The bundle {source.name} cannot be read: {e}") from e
    refs = {name: commit for commit, _, name in (line.partition(" ") for line in listed)}
    ends = {commit for name, commit in refs.items() if name.startswith(SHALLOW_REFS)}
    write_ends(git_dir, ends)
    if BASE_REF in refs:
        await git("update-ref", f"refs/muster/{refs[BASE_REF]}", refs[BASE_REF], git_dir=git_dir)
