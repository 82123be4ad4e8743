"""One bare mirror per repository, shared by every process on this machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .bundle import unbundle
from .cache import Use, is_there, room_for
from .content import files_of
from .errors import UNSHALLOW_HINT, CommitMissing, GitFailed, RepositoryMissing, SourceRefused, full_disk, unread_format
from .git import BLOCK_BYTES, git
from .incoming import INCOMING, take_incoming
from .lock import file_lock, stamp_use
from .removal import discard_tree
from .scratch import make_git_dir, object_environment
from .weight import MAX_REPOSITORY_BYTES, NOTHING, More, Weight, too_large, while_bearable

FETCH_TIMEOUT_S = 1800.0  # a first fetch of a large repository over a slow line
DEFAULT_PROTOCOLS = ("https", "ssh")
COMMIT_HINT = "name a commit, branch or tag that the repository has; push it first if it is yours alone"
FULL_ID = re.compile(r"[0-9a-f]{40}")
# A folder of our own mirrors, with a file for each commit that was found by its whole id: most are asked for often.
SEEN = "muster-seen"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A bare repository whose objects stay for as long as it does (see `cache`): nothing collects garbage in it."""

    git_dir: Path

    @property
    def key(self) -> str:
        return self.git_dir.stem

    @property
    def objects(self) -> Path:
        return self.git_dir / "objects"

    async def has(self, commit: str) -> bool:
        if self._has_seen(commit):
            return True
        found = await git("cat-file", "-e", f"{commit}^{{commit}}", git_dir=self.git_dir, ok=(0, 1, 128))
        return found.exit_code == 0

    async def has_whole(self, commit: str) -> bool:
        """With all its files: a fetch that broke off may have left a part of them."""
        if self._has_seen(commit):
            return True
        asked = ("rev-list", "--quiet", "--objects", "--no-walk", "--end-of-options", commit)
        return (await git(*asked, git_dir=self.git_dir, ok=(0, 128))).exit_code == 0

    async def resolve(self, ref: str) -> str:
        """The commit id of a branch, tag or abbreviated id; `CommitMissing` when there is none. Of a branch and a tag
        with one name the branch counts, as for who clones it."""
        if self._has_seen(ref):
            return ref
        branch = f"refs/heads/{ref}"
        is_branch = not FULL_ID.fullmatch(ref) and await self._has_ref(branch)
        commit = await self._id_of(branch if is_branch else ref, "commit")
        if commit == ref:
            self._remember(commit)
        return commit

    async def tree(self, commit: str) -> str:
        """The id of a commit's tree; `CommitMissing` when there is no such commit."""
        return await self._id_of(commit, "tree")

    async def files(self, commit: str) -> list[str]:
        """Paths of a commit's regular files; no links, no submodules, and no names that are not UTF-8."""
        return await files_of(self.git_dir, await self.resolve(commit))

    def _has_seen(self, commit: str) -> bool:
        """Once there, its objects stay for as long as the mirror does, and so does this note."""
        return FULL_ID.fullmatch(commit) is not None and (self.git_dir / SEEN / commit).exists()

    def _remember(self, commit: str) -> None:
        with suppress(FileNotFoundError):  # somebody's own repository, which has no such folder
            (self.git_dir / SEEN / commit).touch()

    async def _has_ref(self, name: str) -> bool:
        found = await git("show-ref", "--verify", "--quiet", "--", name, git_dir=self.git_dir, ok=(0, 1, 128))
        return found.exit_code == 0

    async def _id_of(self, ref: str, kind: str) -> str:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{{kind}}}")
        found = await git(*asked, git_dir=self.git_dir, ok=(0, 1, 128))
        if found.exit_code:
            shallow = await git("rev-parse", "--is-shallow-repository", git_dir=self.git_dir)
            hint = UNSHALLOW_HINT if shallow.line == "true" else COMMIT_HINT
            raise CommitMissing(f"The repository has no commit {ref!r}", hint=hint)
        return found.line.splitlines()[-1]


async def mirror_of(
    cache_dir: Path,
    *,
    url: str | None = None,
    bundle: Path | None = None,
    commit: str,
    shared_by: Sequence[str] = (),
    protocols: Collection[str] = DEFAULT_PROTOCOLS,
    env: Mapping[str, str] | None = None,
    max_bytes: int = MAX_REPOSITORY_BYTES,
    use: Use | None = None,
) -> Mirror:
    """The mirror that holds `commit`, from exactly one of `url` and `bundle`; both are read only when it is missing.

    `commit` may name a branch or a tag of `url`: it is fetched each time then, and `resolve` gives its id. Who has a
    mirror has all that others fetched into it: there is one for an address, or a bundle's commit, and for all of
    `shared_by`, such as whose credential let it in. `env` is of the fetch alone: what must not stand in a command line.
    `RepositoryTooLarge` when the mirror would be more than `max_bytes`; of what came until then nothing stays. The
    mirror stays for as long as `use` does.
    """
    if (url is None) == (bundle is None):
        raise SourceRefused("A mirror needs either an address or a bundle")
    # As a list: no part of it, which a caller may have chosen, can look like two.
    place = ["url", url] if url is not None else ["commit", commit] if not shared_by else ["bundle"]
    name = hashlib.sha256(json.dumps([*place, *shared_by]).encode()).hexdigest()[:32]
    mirror = _mirror_named(cache_dir, name)
    lock = mirror.git_dir.with_suffix(".lock")
    stamp_use(lock)
    if await _has_already(mirror, commit, use):
        return mirror
    async with file_lock(lock):
        if not await _has_already(mirror, commit, use):
            async with room_for(mirror.git_dir, cache_dir, use, _weight(bundle)) as more:
                try:
                    _create(mirror.git_dir)
                except OSError as e:
                    if full := full_disk(e, mirror.git_dir.parent):
                        raise full from e
                    raise
                if bundle is not None:
                    await unbundle(mirror.git_dir, bundle)
                if url is not None:
                    take_incoming(mirror.git_dir)  # of a killed process; the lock is ours
                    try:
                        await _fetch(mirror, url, commit, protocols, env, max_bytes, more)
                    finally:
                        take_incoming(mirror.git_dir)
            is_there(mirror.git_dir, use)
        await mirror.resolve(commit)
    return mirror


async def _has_already(mirror: Mirror, commit: str, use: Use | None) -> bool:
    return is_there(mirror.git_dir, use) and FULL_ID.fullmatch(commit) is not None and await mirror.has_whole(commit)


def _weight(bundle: Path | None) -> Weight:
    """Of what cannot be read git says so itself."""
    with suppress(OSError):
        return Weight(bundle.stat().st_size) if bundle is not None else NOTHING
    return NOTHING


def _mirror_named(cache_dir: Path, name: str) -> Mirror:
    return Mirror(cache_dir.absolute() / "mirrors" / f"{name}.git")


def _create(git_dir: Path) -> None:
    if git_dir.exists():
        return
    part = git_dir.with_suffix(".part")
    discard_tree(part)  # what a killed process left; the lock is ours
    make_git_dir(part)
    (part / SEEN).mkdir()
    part.rename(git_dir)


async def _fetch(
    mirror: Mirror,
    url: str,
    commit: str,
    protocols: Collection[str],
    env: Mapping[str, str] | None,
    max_bytes: int,
    more: More,
) -> None:
    if url.startswith("-"):
        raise SourceRefused(f"{url!r} is not a repository's address")
    everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    exact = (f"{commit}:refs/muster/{commit}",)
    # Many servers hand out any commit by id, which is the smallest answer; the others hand out their refs only.
    attempts = [exact, everything] if FULL_ID.fullmatch(commit) else [everything]
    # What is gone there goes here: a branch `x` would stand in the way of `x/y`. Objects stay, for who works on them.
    options = (
        "--quiet",
        "--prune",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--end-of-options",
        url,
    )
    into = object_environment(mirror.git_dir / INCOMING, mirror.objects)
    for refs in attempts:
        (mirror.git_dir / INCOMING / "pack").mkdir(parents=True, exist_ok=True)
        try:
            fetch = git(
                *("fetch", *options, *refs),
                git_dir=mirror.git_dir,
                protocols=protocols,
                env={**(env or {}), **into},
                configuration=("fetch.unpackLimit=1",),  # one file, whose growth the system itself bounds
                timeout_s=FETCH_TIMEOUT_S,
                max_file_bytes=max_bytes,
            )
            await while_bearable(fetch, mirror.git_dir, max_bytes, more)
            return
        except GitFailed as e:
            if _is_cut_short(mirror.git_dir / INCOMING, max_bytes):
                raise too_large(max_bytes) from e
            if refs is attempts[-1]:
                raise _not_fetched(e, protocols) from e


def _is_cut_short(incoming: Path, max_bytes: int) -> bool:
    """Has a file come to its bound? Git does not say that this was what ended it."""
    return any(path.stat().st_size >= max_bytes - BLOCK_BYTES for path in incoming.glob("pack/*"))


def _not_fetched(failure: GitFailed, protocols: Collection[str]) -> SourceRefused | RepositoryMissing:
    if "not allowed" in failure.stderr:
        hint = f"allowed: {', '.join(protocols)}"
        return SourceRefused("The address uses a protocol that is not allowed here", hint=hint)
    if "mismatched algorithms" in failure.stderr:
        return unread_format("The repository")
    hint = "check the address, and that this machine may read it"
    return RepositoryMissing(f"The repository cannot be fetched: {failure}", hint=hint)
