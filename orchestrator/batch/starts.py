"""The repositories of a batch as the submitter has them: what they are called, and where each begins."""

from __future__ import annotations

import asyncio
import posixpath
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from envelope.ids import digest_of
from repo.cache import Use
from repo.errors import RepositoryMissing
from repo.local import LocalRepository
from repo.mirror import mirror_of
from repo.pointed import commit_at
from repo.remotes import Remote, address_of
from repo.temporary import temporary_folder
from transport.blobs.base import Blobs

from ..errors import BadBatchFile, BadInput
from ..publication.address import read_address
from ..publication.place import place_of, remote_of
from ..publication.settings import ForgeSettings
from ..publication.terms import Form, Terms
from .spec import Repository


@dataclass(frozen=True, slots=True)
class Start:
    """`folder` is of a local repository, whose branches can be set; None for what was fetched, which has a `url`.

    `origin`: what stands for the folder's repository. `forge`: whose token lets git in there. `bundle`: the blob that
    it came in. `use` keeps what was fetched or unpacked there until nobody has this any more.
    """

    git_dir: Path
    base: str
    folder: Path | None
    url: str = ""
    origin: str = ""
    forge: str = ""
    bundle: str = ""
    use: Use | None = field(default=None, compare=False, repr=False)


def named(repositories: Iterable[Repository], file: Path) -> dict[str, Repository]:
    """By the names in reports; `BadBatchFile` when two are called alike."""
    found: dict[str, Repository] = {}
    for repository in repositories:
        name = repository.name or _called(repository, file)
        if name in found:
            raise BadBatchFile(f"{file}: two repositories are named {name!r}", hint="give one of them a `name`")
        found[name] = repository
    return found


def folder_of(repository: Repository, file: Path) -> Path:
    """Paths in a batch file are relative to it."""
    return (file.parent / (repository.path or "")).resolve()


async def origin_of(local: LocalRepository) -> str:
    """One word for where a local repository is: its folder, and the address that it is a clone of. Another repository
    may say that address of itself, and another machine may have such a folder."""
    common = local.place.common_dir.resolve()
    try:
        address = await address_of(local.root, "origin")
    except RepositoryMissing:
        address = socket.gethostname()
    return digest_of(str(common), address)


async def remote_at(repository: Repository, forges: Mapping[str, ForgeSettings]) -> Remote:
    """Its address as git is let in there: with the token of the forge that it is on, or as the user is by ssh."""
    address = read_address(repository.url or "")
    terms = Terms(to=Form.PUSH, remote=address.url, forge=repository.forge)
    return remote_of(await place_of(terms, forges, None), forges)


async def fetched(repository: Repository, cache_dir: Path, remote: Remote, *, tenant: str = "") -> Start:
    """The remote repository, in the mirror that is kept of it; what it has already is not fetched again.

    What came by a token lies in a mirror of its own: without one nobody finds it.
    """
    url, protocols, env = remote.url, remote.protocols, remote.env
    commit = await commit_at(url, repository.base, protocols=protocols, env=env)
    shared_by = ["credential", remote.credential] if remote.credential else []
    use = Use(tenant)
    mirror = await mirror_of(
        cache_dir, url=url, commit=commit, shared_by=shared_by, protocols=protocols, env=env, use=use
    )
    return Start(mirror.git_dir, await mirror.resolve(commit), None, url=url, forge=repository.forge, use=use)


async def unpacked(repository: Repository, cache_dir: Path, blobs: Blobs | None, *, tenant: str = "") -> Start:
    """The repository in a bundle. Its mirror holds that bundle alone: who names another's commit must have it."""
    if blobs is None or repository.bundle is None:
        hint = "name its `path` or its `url`; bundles are for those who submit over HTTP or from Python"
        raise BadInput(f"{repository.name} is a bundle of a fleet's", hint=hint)
    with temporary_folder("bundle") as folder:
        packed = folder / "repository.bundle"
        content = await blobs.get(repository.bundle)
        await asyncio.to_thread(packed.write_bytes, content)
        try:
            shared_by, use = [repository.bundle], Use(tenant)
            mirror = await mirror_of(cache_dir, bundle=packed, commit=repository.base, shared_by=shared_by, use=use)
        except RepositoryMissing as e:
            hint = "make it with `git bundle create FILE HEAD`, and name a commit that is in it"
            raise BadInput(f"the bundle of {repository.name} cannot be read", hint=hint) from e
    return Start(mirror.git_dir, await mirror.resolve(repository.base), None, bundle=repository.bundle, use=use)


def _called(repository: Repository, file: Path) -> str:
    if repository.url is None:
        return folder_of(repository, file).name
    path = urlsplit(repository.url).path or repository.url.rpartition(":")[2]
    return posixpath.basename(path.rstrip("/")).removesuffix(".git") or repository.url
