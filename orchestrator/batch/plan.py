"""A batch file with its repositories, before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from repo.errors import RepositoryMissing
from repo.mirror import Mirror
from repo.remotes import Remote
from transport.blobs.base import Blobs

from ..errors import BadInput, near_miss
from ..publication.settings import ForgeSettings
from ..settings import Settings
from ..starting import Tell, starting_point
from .file import require_own_remotes
from .preview import BatchPreview, preview
from .spec import BatchSpec, Repository
from .starts import Start, fetched, folder_of, named, origin_of, remote_at, unpacked

Found = dict[str, dict[str, dict[str, str]]]
Reach = Callable[[Repository], Awaitable[Remote]]


@dataclass(frozen=True, slots=True)
class Planned:
    """`starts`: of all repositories, by name. `found`: the shards, where an earlier batch says which."""

    file: Path
    spec: BatchSpec
    starts: Mapping[str, Start]
    found: Found | None = None

    @property
    def folders(self) -> dict[str, Path]:
        """Of the repositories whose branches can be set here."""
        return {name: start.folder for name, start in self.starts.items() if start.folder is not None}

    def is_at_head(self, name: str) -> bool:
        """Does it begin with what is checked out, and no commit that the file names?"""
        return not named(self.spec.repositories, self.file)[name].base

    def having(self, found: Found | None) -> Planned:
        return replace(self, found=found)

    async def preview(self, settings: Settings) -> BatchPreview:
        """`BadInput` for what a run would be refused for."""
        return await preview(self.spec, self.starts, found=self.found, default_budget_microusd=settings.budget_microusd)


@dataclass(frozen=True, slots=True)
class Sources:
    """How repositories are come by. `reach`: who lets us in at an address; None: whoever lets a person's own git in.

    `forges`: those that may be asked; None: all of the settings. `blobs`: where bundles are. `tell` hears what stays
    behind. `tenant`: whose what is fetched is, where many share a disk.
    """

    allow_dirty: bool = False
    tell: Tell = lambda _: None
    blobs: Blobs | None = None
    reach: Reach | None = None
    forges: Mapping[str, ForgeSettings] | None = None
    tenant: str = ""


async def planned(spec: BatchSpec, file: Path, settings: Settings, sources: Sources = Sources()) -> Planned:
    """Every repository is looked at, and those with an address are fetched: one that has vanished is said now."""
    forges = settings.forges if sources.forges is None else sources.forges
    spec = await _with_organisations(spec, forges)
    require_own_remotes(spec, file)
    starts = {
        name: await start_of(repository, file, settings.cache_dir, forges, sources)
        for name, repository in named(spec.repositories, file).items()
    }
    return Planned(file, spec, starts)


async def _with_organisations(spec: BatchSpec, forges: Mapping[str, ForgeSettings]) -> BatchSpec:
    """What a forge lists becomes a part of the batch: when it lists another repository, it is another batch."""
    if all(repository.organisation is None for repository in spec.repositories):
        return spec
    from .organisations import repositories_in  # only now: few batches need what speaks HTTP

    repositories: list[Repository] = []
    for one in spec.repositories:
        if one.organisation is None:
            repositories.append(one)
        elif one.forge in forges:
            repositories += await repositories_in(one, one.forge, forges[one.forge])
        else:
            hint = f"{near_miss(one.forge, forges)}; name it in the user's file as [forges.NAME]"
            raise BadInput(f"there is no forge {one.forge!r} in the settings", hint=hint)
    return spec.model_copy(update={"repositories": tuple(repositories)})


async def start_of(
    repository: Repository, file: Path, cache_dir: Path, forges: Mapping[str, ForgeSettings], sources: Sources
) -> Start:
    """Where a repository's work begins: fetched, out of a bundle, or in a folder of this machine."""
    if repository.url is not None:
        remote = await (sources.reach(repository) if sources.reach else remote_at(repository, forges))
        return await fetched(repository, cache_dir, remote, tenant=sources.tenant)
    if repository.bundle is not None:
        return await unpacked(repository, cache_dir, sources.blobs, tenant=sources.tenant)
    allow_dirty = sources.allow_dirty or bool(repository.base)
    try:
        local = await starting_point(folder_of(repository, file), allow_dirty=allow_dirty, tell=sources.tell)
    except RepositoryMissing as e:
        hint = e.hint or f"correct its path in {file}; what is gone for good comes off it"
        raise RepositoryMissing(str(e), hint=hint) from e
    base = await Mirror(local.git_dir).resolve(repository.base) if repository.base else local.head
    return Start(local.git_dir, base, local.root, origin=await origin_of(local), forge=repository.forge)
