"""The repositories of a batch as the submitter has them: what they are called, and where each begins."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from repo.mirror import mirror_of
from repo.pointed import commit_at

from ..errors import BadBatchFile
from ..publication.address import read_address
from ..publication.place import place_of, remote_of
from ..publication.settings import ForgeSettings
from ..publication.terms import Form, Terms
from .spec import Repository


@dataclass(frozen=True, slots=True)
class Start:
    """`folder` is of a local repository, whose branches can be set; None for what was fetched, which has a `url`."""

    git_dir: Path
    base: str
    folder: Path | None
    url: str = ""


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


async def fetched(repository: Repository, cache_dir: Path, forges: Mapping[str, ForgeSettings]) -> Start:
    """The remote repository, in the mirror that is kept of it; what it has already is not fetched again."""
    address = read_address(repository.url or "")
    terms = Terms(to=Form.PUSH, remote=address.url, forge=repository.forge)
    remote = remote_of(await place_of(terms, forges, None), forges)
    commit = await commit_at(remote.url, repository.base, protocols=remote.protocols, env=remote.env)
    mirror = await mirror_of(cache_dir, url=remote.url, commit=commit, protocols=remote.protocols, env=remote.env)
    return Start(mirror.git_dir, await mirror.resolve(commit), folder=None, url=address.url)


def _called(repository: Repository, file: Path) -> str:
    if repository.url is None:
        return folder_of(repository, file).name
    path = urlsplit(repository.url).path or repository.url.rpartition(":")[2]
    return posixpath.basename(path.rstrip("/")).removesuffix(".git") or repository.url
