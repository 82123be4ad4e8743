"""What is done once a batch has ended: reports, branches, the summary, and what its file publishes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from envelope.messages import TaskResult
from repo.errors import RepoError
from transport.errors import TransportError

from ..batch.report import BatchReport, report_of
from ..batch.spec import BatchSpec
from ..client import Muster
from ..publication.terms import Form
from ..session.fold import Session
from .console import note
from .publish import NotSet, Packed, Target, first_of, not_set, publish_bundle
from .report_forms import Wanted
from .summary import summary_of_batch

NoPublish = Annotated[
    bool, typer.Option("--no-publish", help="Set no branch and publish nothing: `muster publish` can, later.")
]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What was asked for; `folders` are those of the batch's local repositories, as far as they are known here."""

    reports: tuple[Wanted, ...]
    publishes: bool
    spec: BatchSpec | None = None
    folders: Mapping[str, Path] = field(default_factory=dict[str, Path])


async def conclude(muster: Muster, view: Session, result: TaskResult, asked: Conclusion) -> None:
    """Print the summary; then set the branches here, or publish elsewhere, as the batch's file says."""
    spec = asked.spec
    assert spec is not None  # it is known before a batch is followed
    cap = spec.limits.budget_microusd(muster.settings.budget_microusd)
    report = report_of(result)
    if report is None:
        summary_of_batch(view, result, None, cap_microusd=cap, published=()).print()
        return
    terms = spec.publish if asked.publishes else None
    elsewhere = terms if terms is not None and terms.to is not Form.BRANCH else None
    set_here = terms is not None and elsewhere is None
    set_for, refused = await _set_branches(muster, result, report, asked) if set_here else ([], {})
    summary_of_batch(view, result, report, cap_microusd=cap, published=frozenset(set_for)).print()
    if refused:
        raise first_of(refused)
    if spec.publish is not None and not asked.publishes:
        note(f"nothing is published; what is verified can be: muster publish {result.task_id}")
    if elsewhere is not None:
        from .publish_batch import publish_batch  # only now: few batches need what it imports

        await publish_batch(muster, result.task_id, elsewhere, asked.folders)


async def _set_branches(
    muster: Muster, result: TaskResult, report: BatchReport, asked: Conclusion
) -> tuple[list[str], dict[str, NotSet]]:
    """Set the branches of those repositories whose change may go (see `Terms.lets_go`); who refused, and why."""
    spec = asked.spec
    ready = [
        repository
        for repository in report.repositories
        if spec is not None
        and spec.publish
        and repository.name in asked.folders
        and repository.changed
        and repository.bundle
        and spec.publish.lets_go(verified=repository.verified, is_judged=spec.gate is not None)
    ]
    refused: dict[str, NotSet] = {}
    take = f"all of its repositories under another name: muster publish {result.task_id}"
    onto_default = spec is not None and spec.publish is not None and spec.publish.default_branch
    for repository in ready:
        target = Target(asked.folders[repository.name], report.branch, onto_default=onto_default)
        try:
            await publish_bundle(muster, result, Packed(repository.bundle, repository.commit), target)
        except (RepoError, TransportError, OSError) as e:
            refused[repository.name] = not_set(e, report.branch, take)
    return [repository.name for repository in ready if repository.name not in refused], refused
