"""A batch file with its repositories, before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repo.errors import RepositoryMissing
from repo.mirror import Mirror

from ..batch.chosen import undone_in
from ..batch.preview import BatchPreview, preview
from ..batch.report import REPORT_NAME, BatchReport
from ..batch.spec import BatchSpec, Repository
from ..batch.starts import Start, fetched, folder_of, named
from ..client import Muster
from ..errors import BadInput, near_miss
from ..settings import Settings
from .find import find_task
from .repository import starting_point
from .show import report_of


@dataclass(frozen=True, slots=True)
class Planned:
    """`starts`: of all repositories, by name. `found`: the shards, where an earlier batch says which."""

    file: Path
    spec: BatchSpec
    starts: Mapping[str, Start]
    found: dict[str, dict[str, dict[str, str]]] | None = None

    @property
    def folders(self) -> dict[str, Path]:
        """Of the repositories whose branches can be set here."""
        return {name: start.folder for name, start in self.starts.items() if start.folder is not None}

    def is_at_head(self, name: str) -> bool:
        """Does it begin with what is checked out, and no commit that the file names?"""
        return not named(self.spec.repositories, self.file)[name].base

    async def preview(self, settings: Settings) -> BatchPreview:
        """`BadInput` for what a run would be refused for."""
        return await preview(self.spec, self.starts, found=self.found, default_budget_microusd=settings.budget_microusd)


async def planned(spec: BatchSpec, file: Path, settings: Settings, *, allow_dirty: bool) -> Planned:
    """Every repository is looked at, and those with an address are fetched: one that has vanished is said now."""
    spec = await _with_organisations(spec, settings)
    starts = {
        name: await _start(repository, file, settings, allow_dirty=allow_dirty)
        for name, repository in named(spec.repositories, file).items()
    }
    return Planned(file, spec, starts)


async def undone_by(muster: Muster, words: str) -> dict[str, dict[str, dict[str, str]]]:
    """What an earlier batch has not done; `BadInput` when that is nothing."""
    record = await find_task(muster, words)
    result = await muster.result(record.task_id)
    if result is None or report_of(result) is None:
        state = "is under way" if result is None else "has no batch report"
        raise BadInput(f"the task {record.task_id} {state}", hint="shards.failures_of names a batch that has ended")
    report = BatchReport.model_validate_json(await muster.attachment(result, REPORT_NAME))
    undone = undone_in(report)
    if not any(undone.values()):
        raise BadInput(f"the batch {record.task_id} has nothing that failed", hint="name another in shards.failures_of")
    return undone


async def _with_organisations(spec: BatchSpec, settings: Settings) -> BatchSpec:
    """What a forge lists becomes a part of the batch: when it lists another repository, it is another batch."""
    if all(repository.organisation is None for repository in spec.repositories):
        return spec
    from ..batch.organisations import repositories_in  # only now: few batches need what speaks HTTP

    repositories: list[Repository] = []
    for one in spec.repositories:
        if one.organisation is None:
            repositories.append(one)
        elif one.forge in settings.forges:
            repositories += await repositories_in(one, one.forge, settings.forges[one.forge])
        else:
            hint = f"{near_miss(one.forge, settings.forges)}; name it in the user's file as [forges.NAME]"
            raise BadInput(f"there is no forge {one.forge!r} in the settings", hint=hint)
    return spec.model_copy(update={"repositories": tuple(repositories)})


async def _start(repository: Repository, file: Path, settings: Settings, *, allow_dirty: bool) -> Start:
    if repository.url is not None:
        return await fetched(repository, settings.cache_dir, settings.forges)
    try:
        local = await starting_point(folder_of(repository, file), allow_dirty=allow_dirty or bool(repository.base))
    except RepositoryMissing as e:
        hint = e.hint or f"correct its path in {file}; what is gone for good comes off it"
        raise RepositoryMissing(str(e), hint=hint) from e
    base = await Mirror(local.git_dir).resolve(repository.base) if repository.base else local.head
    return Start(local.git_dir, base, local.root)
