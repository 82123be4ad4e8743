"""Batches from Python; the command line and the API use nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from envelope.asks import AskTerms
from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskRequest
from repo.errors import RepoError
from repo.local import locate
from repo.temporary import temporary_folder
from transport.base import Handle, TaskRecord
from transport.errors import NotFound

from ..catalogue import agents_of
from ..errors import BadInput, UnderWay
from ..families import children_of
from ..pages import Wanted, page_of
from ..publication.place import Place, place_of
from ..publication.settings import ForgeSettings
from ..publication.terms import OUTSIDE
from ..read_only import narrowed
from ..records import Records
from ..submit import BATCH, RepositoryInput, params_of, repeated
from .before import undone_then
from .chosen import undone_in
from .difference import Difference, difference, works_of
from .file import load_batch
from .looking import require_looking
from .measured import RUNS, Outlook, Run, by_price, outlook
from .merge_overlaps import foreseen
from .obstacles import (
    too_old_packages,
    unknown_agents,
    unknown_places,
    without_model,
    without_price,
    without_token,
)
from .plan import Found, Planned, Sources, planned
from .preview import BatchPreview, all_shards
from .report import REPORT_NAME, BatchReport, OverlapReport, report_of
from .request import BatchParams, batch_request
from .shorthands import TARGET_VERSION
from .spec import BatchSpec
from .starts import Start
from .status import BatchStatus, status_of
from .survey import oldest_of

HERE = Path("batch.toml")  # what paths in a batch are relative to that is in no file


class BatchFields(TypedDict, total=False):
    """What a caller says of a batch beside its document. `idempotency_key`: instead of the batch's content."""

    sender: str
    asks: AskTerms | None  # None: nobody can be asked
    tenant: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Batches:
    """`Muster.batches`. A batch is named by its task; `Muster.follow` and `cancel` know it as any other task."""

    muster: Records

    async def plan(self, batch: Path | BatchSpec, sources: Sources = Sources(), *, file: Path = HERE) -> Planned:
        """A batch with its repositories as they are now, fetched where they have an address. Nothing is submitted.

        `batch`: a file, or what `parse_batch` made of a text, whose paths are relative to `file`. What an earlier batch
        has left undone is looked up. `BadInput` and `RepoError` say what cannot be run.
        """
        only_looks = self.muster.settings.read_only
        spec, place = (load_batch(batch, only_looks=only_looks), batch) if isinstance(batch, Path) else (batch, file)
        if only_looks:
            require_looking(spec)  # before anything is fetched
        found = await planned(spec, place, self.muster.settings, sources)
        earlier = spec.shards.failures_of
        return found if earlier is None else found.having(await self.undone(earlier))

    async def preview(
        self,
        plan: Planned,
        *,
        tenant: str = "",
        earlier: str = "",
        forges: Mapping[str, ForgeSettings] | None = None,
    ) -> BatchPreview:
        """What it would do, where that would go, and what it will about take. `BadInput` for what a run would be
        refused for. Nothing is asked of a remote, and nothing written there. `earlier`: the batch's last run, whose
        done shards are not done again. `forges`: those that its publication may use; None: all of the settings."""
        forges = self.muster.settings.forges if forges is None else forges
        found = await plan.preview(self.muster.settings)
        if earlier and found.known:
            before = await self.difference(plan, earlier)
            found = found.model_copy(update={"reused": len(before.same)})
        places = {one.name: await _place(plan, one.name, forges) for one in found.repositories}
        there = tuple(one.model_copy(update={"goes_to": _told(places[one.name])}) for one in found.repositories)
        expected = await self._outlook(plan, found, tenant or self.muster.settings.tenant)
        asked = [place.forge for place in places.values() if isinstance(place, Place)]
        warnings = (*await self.obstacles(plan), *without_token(asked, forges))
        return found.model_copy(update={"repositories": there, "outlook": expected, "warnings": warnings})

    async def obstacles(self, plan: Planned) -> tuple[str, ...]:
        """What would stop its steps, or have them do harm, as far as repositories and live workers tell it."""
        spec = plan.spec
        cards = await self.muster.workers() if spec.asks_a_model else []
        lacking = without_model(spec, cards, model=self.muster.settings.model)
        said = (*lacking, *without_price(spec, cards), *unknown_agents(spec, cards), *unknown_places(spec))
        if not spec.says(TARGET_VERSION):
            return said
        oldest = {name: await oldest_of(start.git_dir, start.base) for name, start in plan.starts.items()}
        return (*said, *too_old_packages(spec, oldest))

    async def _outlook(self, plan: Planned, found: BatchPreview, tenant: str) -> Outlook:
        cap = found.max_cost_microusd
        if not found.known:
            return Outlook(by="only a run tells its shards")
        if not found.runs:
            return Outlook(low_microusd=0, high_microusd=0, by="the last run, which has done all shards")
        if measured := outlook(await self._runs(plan.spec.name, tenant), found.runs, cap_microusd=cap):
            return measured
        step = next((step for step in plan.spec.steps if step.agent), None)
        cards = await self.muster.workers() if step else []
        card = agents_of(cards).get(step.agent or "") if step else None
        model = card.model if card else ""
        worker = next((each for each in cards if each.price and model in ("", each.model)), None)
        if step is None or worker is None or worker.price is None:
            return Outlook()
        return by_price(worker.price, worker.model, step.prompt or "", found.runs, cap_microusd=cap)

    async def _runs(self, name: str, tenant: str) -> list[Run]:
        """The latest batches of the name that ended, as far as they are among the latest roots."""

        def fits(record: TaskRecord) -> bool:
            return (record.agent, record.intent) == (BATCH, name)

        page = await page_of(self.muster.transport, Wanted(tenant, TERMINAL, fits), after="", limit=RUNS)
        runs: list[Run] = []
        for record in page.records:
            with suppress(BadInput, NotFound):  # it came to no report, or that is no longer kept
                report = await self.report(record.task_id)
                took_ms = (record.finished_at_ms or 0) - (record.started_at_ms or 0)
                tried = sum(not one.reused and one.outcome != "failed" for one in report.shards)
                runs.append(Run(tried, report.cost_microusd, took_ms))
        return runs

    async def request(self, plan: Planned, **fields: Unpack[BatchFields]) -> TaskRequest:
        """The batch's task, with its repositories packed, to be given to `Muster.submit_repeatable`."""
        if self.muster.charge is not None:  # each shard is told all of it, which stands in the queue as often
            found = await plan.preview(self.muster.settings)
            await self.muster.charge(found.count * plan.spec.handed_on_bytes)
        inputs = [await self._packed(name, start) for name, start in plan.starts.items()]
        said: BatchFields = {"sender": "api", **fields}
        return batch_request(plan.spec, inputs, settings=self.muster.settings, found=plan.found, **said)

    async def submit(self, plan: Planned, **fields: Unpack[BatchFields]) -> Handle:
        """Hand it over. The same batch on the same commits is one task, until it fails: then it is done again.

        Under a key of the caller's own it is that key's first task, however that ended.
        """
        request = await self.request(plan, **fields)
        is_own_key = bool(fields.get("idempotency_key"))
        return await (self.muster.submit(request) if is_own_key else self.muster.submit_repeatable(request))

    async def record(self, task_id: str) -> TaskRecord:
        """`BadInput` for a task that is no batch."""
        record = await self.muster.record(task_id)
        if record.agent != BATCH:
            raise BadInput(f"the task {task_id} is no batch", hint="see them with: muster batch list")
        return record

    async def status(self, task_id: str) -> BatchStatus:
        """How far it is: its tasks by state, and what they have cost. Waits for nothing."""
        record = await self.record(task_id)
        return status_of(record, await self.muster.tree(record.trace_id))

    async def retry(self, task_id: str, **fields: Unpack[BatchFields]) -> Handle:
        """One that failed or was stopped, as it was submitted, on the commits of then. What was done is not done again.

        Twice is once. `UnderWay` while it is under way, `BadInput` when nothing of it failed.
        """
        record = await self.record(task_id)
        result = await self.muster.result(task_id)
        if result is None:
            raise UnderWay(f"the batch {task_id} is under way", hint="wait for it, or cancel it")
        if result.status is State.COMPLETED:
            raise BadInput(f"the batch {task_id} has nothing that failed", hint=f"muster batch show {task_id}")
        request = repeated(await self.muster.request(task_id), record.task_id)
        if self.muster.charge is not None:
            shards = len(await children_of(self.muster.transport, record))
            await self.muster.charge(shards * params_of(BatchParams, request).spec.handed_on_bytes)
        sender = fields.get("sender", "api")
        return await self.muster.submit_repeatable(request.model_copy(update={"sender": sender}))

    async def report(self, task_id: str) -> BatchReport:
        """The whole of it. `UnderWay` while it is under way, `BadInput` when it ended before there was one."""
        await self.record(task_id)
        result = await self.muster.result(task_id)
        if result is None:
            raise UnderWay(f"the batch {task_id} is under way", hint="follow it to its end")
        if report_of(result) is None:
            raise BadInput(f"the task {task_id} has no batch report", hint=f"muster task show {task_id}")
        return BatchReport.model_validate_json(await self.muster.attachment(result, REPORT_NAME))

    async def overlaps(self, task_id: str) -> Mapping[str, tuple[OverlapReport, ...]]:
        """Which of its patches change the same files, by repository: while it is at work, and after it."""
        await self.record(task_id)
        result = await self.muster.result(task_id)
        if result is not None and report_of(result) is not None:
            return {one.name: one.overlaps for one in (await self.report(task_id)).repositories}
        with temporary_folder("overlaps") as folder:
            return await foreseen(self.muster, await self.muster.request(task_id), folder)

    async def undone(self, task_id: str) -> Found:
        """The shards that a batch has not done; `BadInput` when there are none."""
        try:
            undone = undone_in(await self.report(task_id))
        except UnderWay as e:
            raise BadInput(e.message, hint="shards.failures_of names a batch that has ended") from e
        if not any(undone.values()):
            raise BadInput(f"the batch {task_id} has nothing that failed", hint="name another in shards.failures_of")
        return undone

    async def difference(self, plan: Planned, earlier: str) -> Difference:
        """What the batch would do that an `earlier` one has not done.

        By the files as they were at that one's commits, which are looked for where the repositories are now, and by
        what became of its shards, once it has ended.
        `BadInput` where only a run tells the shards.
        """
        require_known_shards(plan.spec, plan.file)
        record = await self.record(earlier)
        params = params_of(BatchParams, await self.muster.request(earlier))
        before: dict[str, str] = {}
        for given in params.repositories:
            if start := plan.starts.get(given.name):
                before |= await _works_then(params, Start(start.git_dir, given.base, None), given)
        after: dict[str, str] = {}
        for name, shards in (await all_shards(plan.spec, plan.starts, found=plan.found)).items():
            after |= works_of(shards, plan.spec, _unpacked(name, plan.starts[name]))
        found = difference(before, after, specs=(params.spec, plan.spec), earlier=earlier)
        result = await self.muster.result(earlier)
        if result is None or not found.same:
            return found
        report = None if report_of(result) is None else await self.report(earlier)
        return found.repeating(await undone_then(self.muster, record, report, found.same))

    async def done_before(self, plan: Planned, task_id: str) -> Handle | None:
        """That task, when it was this very batch and completed: then nothing need be packed."""
        inputs = [_unpacked(name, start) for name, start in plan.starts.items()]
        request = batch_request(plan.spec, inputs, settings=self.muster.settings, found=plan.found)
        [wanted] = narrowed([request], self.muster.settings)
        try:
            earlier, result = await self.muster.request(task_id), await self.muster.result(task_id)
        except NotFound:
            return None
        is_same = (earlier.idempotency_key, earlier.tenant) == (wanted.idempotency_key, wanted.tenant)
        if not is_same or result is None or result.status is not State.COMPLETED:
            return None
        return Handle(earlier.task_id, earlier.trace_id, existing=True)

    async def _packed(self, name: str, start: Start) -> RepositoryInput:
        given = _unpacked(name, start)
        if start.bundle:
            return given
        workspace = await self.muster.pack(start.folder or await locate(start.git_dir), commit=start.base)
        return given.model_copy(update={"bundle": workspace.bundle or "", "base": workspace.base})


def _unpacked(name: str, start: Start) -> RepositoryInput:
    told = {"url": start.url, "origin": start.origin, "forge": start.forge}
    return RepositoryInput(name=name, bundle=start.bundle, base=start.base, **told)


def require_known_shards(spec: BatchSpec, file: Path) -> None:
    if spec.shards.command is not None:
        hint = "see what has changed since by running it: what is done is not done again"
        raise BadInput(f"{file} tells its shards by a command, which only a run may start", hint=hint)


async def _place(plan: Planned, name: str, forges: Mapping[str, ForgeSettings]) -> Place | str:
    """Where the repository's change goes, or why nobody knows it; empty for what stays here."""
    terms, start = plan.spec.publish, plan.starts[name]
    if terms is None or terms.to not in OUTSIDE:
        return ""
    asked = terms.model_copy(update={"forge": terms.forge or start.forge})
    try:
        return await place_of(asked, forges, start.folder, fetched_from=start.url)
    except (BadInput, RepoError) as e:
        return f"not known: {e}"


def _told(place: Place | str) -> str:
    return place.address.url if isinstance(place, Place) else place


async def _works_then(params: BatchParams, start: Start, given: RepositoryInput) -> dict[str, str]:
    if params.spec.shards.command is not None:
        return {}
    try:
        found = await all_shards(params.spec, {given.name: start}, found=params.found)
    except (RepoError, BadInput):
        return {}  # a commit that was thrown away since: nothing is known of it, and all counts as new
    return works_of(found[given.name], params.spec, given)
