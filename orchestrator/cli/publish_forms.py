"""One change in the form that was asked for: a branch here, files, a push, a request. What stops it is a line, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envelope.errors import ErrorCode
from repo.errors import RepoError
from repo.local import locate
from repo.mirror import Mirror
from repo.series import write_branch_bundle, write_series
from transport.audit import Decision

from ..client import Muster
from ..errors import BadInput, OrchestratorError, code_of
from ..publication.address import is_remote_name
from ..publication.book import Stage
from ..publication.changes import Change, mirror_with
from ..publication.publisher import Publisher
from ..publication.terms import OUTSIDE, Form, Terms
from ..publication.wanted import wanted_of
from .person import person
from .publish import publish_bundle
from .publish_told import Told, told_of

UNPROVED = "not published"
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
    if not job.change.may_go(job.terms):
        why = job.change.facts.reason or "nobody has proved it"
        hint = "look at it, then publish it with --unverified, or `unverified = true`"
        return _told(job, UNPROVED, reason=f"not verified: {why}", hint=hint, code=ErrorCode.GATE_FAILED)
    try:
        return await _FORMS[job.terms.to](job)
    except (OrchestratorError, RepoError) as e:
        code = code_of(e) or ErrorCode.INTERNAL
        return _told(job, Stage.REFUSED, reason=str(e), hint=e.hint, code=code)


async def _branch(job: Job) -> Told:
    change = job.change
    result = await job.muster.result(change.task_id)
    assert result is not None  # `changes_of` has read it
    if job.repository is None:
        raise BadInput("nobody knows where the repository is", hint=f"name it: --repo {change.repository}=PATH")
    await _require_origin(job.repository, change)
    await publish_bundle(
        job.muster, result, name=change.bundle, repository=job.repository, branch=job.branch, commit=change.commit
    )
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
    change, terms, publisher = job.change, job.terms, job.publisher
    if job.repository is not None and is_remote_name(terms.remote):
        await _require_origin(job.repository, change)
    tenant = (await job.muster.record(change.task_id)).tenant
    wanted = await wanted_of(change, terms, job.branch, publisher.forges, repository=job.repository, tenant=tenant)
    details = {"remote": wanted.remote, "branch": wanted.branch, "commit": wanted.commit}
    await job.muster.transport.audit.note(Decision(person(), "publish", change.task_id, tenant, details))
    async with mirror_with(job.muster, change.task_id, bundle=change.bundle, commit=change.commit) as mirror:
        return told_of(await publisher.publish(wanted, mirror))


async def _require_origin(repository: Path, change: Change) -> None:
    """In another repository a name such as `origin` stands for another place: private history would go there."""
    place = await locate(repository)
    if not await Mirror(place.git_dir).has(change.base):
        hint = f"name the one that it was made from: --repo {change.repository and f'{change.repository}='}PATH"
        raise BadInput(f"{place.root} is not the repository that the change was made from", hint=hint)


def _told(job: Job, stage: str, *, where: str = "", reason: str = "", hint: str = "", code: str = "") -> Told:
    change = job.change
    return Told(
        task_id=change.task_id,
        repository=change.repository,
        to=job.terms.to,
        branch=job.branch,
        commit=change.commit,
        stage=stage,
        where=where,
        reason=reason,
        hint=hint,
        code=code,
    )


_FORMS: Mapping[Form, Callable[[Job], Awaitable[Told]]] = {
    Form.BRANCH: _branch,
    Form.PATCHES: _patches,
    Form.BUNDLE: _bundle,
    **dict.fromkeys(OUTSIDE, _outside),
}
