"""One change in the form that was asked for: a branch here, files, a push, a request. What stops it is a line, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repo.errors import RepoError
from repo.local import locate
from repo.mirror import Mirror
from repo.series import write_branch_bundle, write_series

from ..client import Muster
from ..errors import BadInput, OrchestratorError
from ..publication.address import is_remote_name
from ..publication.changes import Change, mirror_with
from ..publication.client import Publications, refused, told_about, unproved
from ..publication.publisher import Publisher
from ..publication.terms import OUTSIDE, Form, Terms
from ..publication.told import Told
from .person import person
from .publish import Packed, Target, publish_bundle

CHANGE = "change"  # files of a goal, which has no repository's name


@dataclass(frozen=True, slots=True)
class Job:
    """`repository` is the local one, if there is any."""

    muster: Muster
    publisher: Publisher
    change: Change
    terms: Terms
    branch: str
    repository: Path | None

    @property
    def name(self) -> str:
        return Path(self.change.repository).name


async def publish_change(job: Job) -> Told:
    """The line says what became of it; no error stops the next change."""
    if job.terms.to in OUTSIDE:
        return await _outside(job)
    if (no := unproved(job.change, job.terms, job.branch)) is not None:
        return no
    try:
        return await _HERE[job.terms.to](job)
    except (OrchestratorError, RepoError) as e:
        return refused(job.change, job.terms, job.branch, e)


async def _branch(job: Job) -> Told:
    change = job.change
    result = await job.muster.result(change.task_id)
    assert result is not None  # `changes_of` has read it
    if job.repository is None:
        raise BadInput("nobody knows where the repository is", hint=f"name it: --repo {change.repository}=PATH")
    await _require_origin(job.repository, change)
    packed = Packed(change.bundle, change.commit)
    target = Target(job.repository, job.branch, onto_default=job.terms.default_branch)
    await publish_bundle(job.muster, result, packed, target)
    return _told(job, "set")


async def _patches(job: Job) -> Told:
    folder = Path(job.terms.folder) / job.name
    async with mirror_with(
        job.muster, job.change.task_id, bundle=job.change.bundle, commit=job.change.commit
    ) as mirror:
        await write_series(mirror, job.change.base, job.change.commit, folder)
    return _told(job, "written", where=str(folder))


async def _bundle(job: Job) -> Told:
    target = Path(job.terms.folder) / f"{job.name or CHANGE}.bundle"
    change = job.change
    async with mirror_with(job.muster, change.task_id, bundle=change.bundle, commit=change.commit) as mirror:
        await write_branch_bundle(mirror, change.base, change.commit, job.branch, target)
    return _told(job, "written", where=str(target))


async def _outside(job: Job) -> Told:
    change, terms = job.change, job.terms
    if job.repository is not None and is_remote_name(terms.remote):
        try:
            await _require_origin(job.repository, change)
        except (OrchestratorError, RepoError) as e:
            return unproved(change, terms, job.branch) or refused(change, terms, job.branch, e)
    publications = Publications(job.muster, job.publisher)
    return await publications.publish_change(change, terms, job.branch, repository=job.repository, by=person())


async def _require_origin(repository: Path, change: Change) -> None:
    """In another repository a name such as `origin` stands for another place: private history would go there."""
    place = await locate(repository)
    if not await Mirror(place.git_dir).has(change.base):
        hint = f"name the one that it was made from: --repo {change.repository and f'{change.repository}='}PATH"
        raise BadInput(f"{place.root} is not the repository that the change was made from", hint=hint)


def _told(job: Job, stage: str, *, where: str = "") -> Told:
    return told_about(job.change, job.terms.to, job.branch, stage, where=where)


_HERE: Mapping[Form, Callable[[Job], Awaitable[Told]]] = {
    Form.BRANCH: _branch,
    Form.PATCHES: _patches,
    Form.BUNDLE: _bundle,
}
