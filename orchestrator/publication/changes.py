"""What there is to publish of an ended task: a commit for each repository that it changed, and what is said of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from envelope.events import GateVerdict
from envelope.messages import TaskRequest, TaskResult
from repo.mirror import Mirror, mirror_of
from repo.temporary import temporary_folder

from ..batch.report import BatchReport, RepositoryReport
from ..batch.request import BatchParams
from ..batch.spec import Publish
from ..costs import OTHERS
from ..errors import BadInput
from ..gating.text import proof_of, told_by_driver
from ..goal import BUNDLE_NAME
from ..records import Records
from ..submit import BATCH, RUN, params_of
from .body import Facts, title_of
from .terms import Terms


@dataclass(frozen=True, slots=True)
class Change:
    """`bundle` names the attachment that holds `commit`. `is_judged`: a gate was to prove it. `asked` is what the
    batch file says of its publication. `url`: where its repository was fetched from; empty for a local one. `forge`: as
    the batch file names it for this repository. `batch`: the batch's name."""

    task_id: str
    repository: str
    bundle: str
    base: str
    commit: str
    branch: str
    title: str
    facts: Facts
    is_judged: bool
    asked: Publish | None = None
    url: str = ""
    forge: str = ""
    batch: str = ""

    @property
    def is_goal(self) -> bool:
        return not self.repository

    def may_go(self, terms: Terms) -> bool:
        return terms.lets_go(verified=self.facts.verified, is_judged=self.is_judged)


async def changes_of(muster: Records, task_id: str) -> list[Change]:
    """`BadInput` when there are none, or not yet."""
    request, result = await muster.request(task_id), await muster.result(task_id)
    read = {BATCH: _of_batch, RUN: _of_goal}.get(request.agent)
    if read is None:
        hint = "publish the goal or batch that it belongs to: see muster task list"
        raise BadInput(f"the task {task_id} is neither a goal nor a batch", hint=hint)
    if result is None:
        raise BadInput(f"the task {task_id} has not ended yet", hint=f"wait for it: muster attach {task_id}")
    cost = await muster.cost(request.trace_id)
    models = tuple(sorted(set(cost.by_model) - {OTHERS}))
    agents = tuple(sorted(set(cost.by_agent) - {OTHERS}))
    if changes := read(request, result, agents, models):
        return changes
    raise BadInput(f"the task {task_id} has changed nothing", hint=f"see what came of it: muster task show {task_id}")


@asynccontextmanager
async def mirror_with(muster: Records, task_id: str, *, bundle: str, commit: str) -> AsyncGenerator[Mirror]:
    """A repository of its own, for a while, with a commit that came in a task's result."""
    result = await muster.result(task_id)
    if result is None:
        raise BadInput(f"the result of {task_id} is gone", hint="run it again")
    with temporary_folder("publish") as folder:
        packed = folder / "merged.bundle"
        packed.write_bytes(await muster.attachment(result, bundle))
        yield await mirror_of(folder, bundle=packed, commit=commit)


def _of_batch(
    request: TaskRequest, result: TaskResult, agents: tuple[str, ...], models: tuple[str, ...]
) -> list[Change]:
    params = params_of(BatchParams, request)
    spec, given = params.spec, {each.name: each for each in params.repositories}
    commands = tuple(command for step in spec.steps for command in step.recipe or ())
    report = BatchReport.model_validate(result.output.structured) if result.output.structured else None
    asked = spec.publish

    def change_of(one: RepositoryReport) -> Change:
        facts = Facts(
            task_id=request.task_id,
            base=one.base,
            commit=one.commit,
            verified=one.verified,
            reason=one.reason,
            done_by=(*agents, *commands),
            models=models,
            cost_microusd=one.cost_microusd,
            shards=tuple((name, one.count(name)) for name in ("applied", "empty", "collision", "set_aside", "failed")),
            gates=tuple(gate for gate in (one.before, one.after) if gate is not None),
        )
        return Change(
            task_id=request.task_id,
            repository=one.name,
            bundle=one.bundle,
            base=one.base,
            commit=one.commit,
            branch=asked.branch if asked else _branch_of(request),
            title=title_of(spec.name),
            facts=facts,
            is_judged=spec.gate is not None,
            asked=asked,
            url=given[one.name].url if one.name in given else "",
            forge=given[one.name].forge if one.name in given else "",
            batch=spec.name,
        )

    return [change_of(one) for one in (report.repositories if report else ()) if one.changed and one.bundle]


def _of_goal(
    request: TaskRequest, result: TaskResult, agents: tuple[str, ...], models: tuple[str, ...]
) -> list[Change]:
    told = told_by_driver(result)
    verified, reason = proof_of(result)
    commit, workspace = told.get("commit"), request.workspace
    if not commit or workspace is None:
        return []
    verdicts: dict[str, Any] = told.get("gate") or {}
    facts = Facts(
        task_id=request.task_id,
        base=workspace.base,
        commit=str(commit),
        verified=verified,
        reason=reason,
        done_by=agents,
        models=models,
        cost_microusd=result.metrics.cost_microusd,
        gates=tuple(GateVerdict.model_validate(each) for each in verdicts.values() if each),
    )
    return [
        Change(
            task_id=request.task_id,
            repository="",
            bundle=BUNDLE_NAME,
            base=workspace.base,
            commit=str(commit),
            branch=_branch_of(request),
            title=title_of(request.input.prompt),
            facts=facts,
            is_judged=bool(request.input.params.get("gate")),
            url=workspace.url or "",
        )
    ]


def _branch_of(request: TaskRequest) -> str:
    return f"muster/{request.task_id[-8:]}"
