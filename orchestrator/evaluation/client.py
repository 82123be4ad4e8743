"""Evaluations from Python; the command line uses nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from pydantic import TypeAdapter, ValidationError

from envelope.agents import AgentCard, WorkerCard
from envelope.errors import require_room
from envelope.ids import BlobRef
from envelope.messages import TaskRequest
from transport.base import Handle

from ..batch.part import FileName
from ..batch.plan import Sources
from ..catalogue import agent_named
from ..errors import BadInput, UnderWay
from ..looking import require_writing
from ..records import Records
from ..submit import EVAL, step_of
from .file import load_suite
from .outcomes import SampleReport
from .plan import EvalPreview, PlannedSuite, packed_cases, planned
from .prices import require_prices
from .report import REPORT_NAME, EvalReport, report_of
from .request import eval_request
from .spec import SuiteSpec

_NAMES = TypeAdapter[tuple[FileName, FileName]](tuple[FileName, FileName])

HERE = Path("suite.toml")  # what paths in a suite are relative to that is in no file
WRITES = "a suite's samples change code, to be judged by it"


class EvalFields(TypedDict, total=False):
    """What a caller says of a suite beside its document. `record`: keep a cassette of each sample. `recorded`: a folder
    of such cassettes, whose models' words are said again, so that no model is asked."""

    record: bool
    recorded: Path | None
    sender: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Evals:
    """`Muster.evals`. A suite is named by its task; `Muster.follow` and `cancel` know it as any other task."""

    muster: Records

    async def plan(self, suite: Path | SuiteSpec, sources: Sources = Sources(), *, file: Path = HERE) -> PlannedSuite:
        """A suite with the code of its cases as it is now. Nothing is submitted.

        `suite`: a file, or what `parse_suite` made of a text, whose paths are relative to `file`. `BadInput` and
        `RepoError` say what cannot be run.
        """
        spec, place = (load_suite(suite), suite) if isinstance(suite, Path) else (suite, file)
        return await planned(spec, place, self.muster.settings, sources)

    def preview(self, plan: PlannedSuite, *, recorded: bool = False) -> EvalPreview:
        """What it would do, and the most that it may cost."""
        return plan.preview(self.muster.settings, recorded=recorded)

    async def request(self, plan: PlannedSuite, **fields: Unpack[EvalFields]) -> TaskRequest:
        """The suite's task, with its code packed, to be given to `Muster.submit_repeatable`.

        `UnknownName` for an agent that no live worker offers, `BadInput` for a model whose price none of them knows.
        """
        require_writing(self.muster.settings, WRITES)
        recorded = fields.get("recorded")
        workers = await self.muster.workers()
        if recorded is None:
            require_prices(plan.variants, workers, least_cap_microusd=min(plan.sample_caps(self.muster.settings)))
        cards = {name: agent_named(name, workers) for name in {one.agent for one in plan.variants}}
        return eval_request(
            plan.spec,
            await packed_cases(plan, self.muster),
            {name: step_of(card) for name, card in cards.items()},
            made_of={name: (card.digest, card.model or _default_model(card, workers)) for name, card in cards.items()},
            settings=self.muster.settings,
            record=fields.get("record", False),
            cassettes=await self._cassettes(plan, recorded) if recorded else None,
            sender=fields.get("sender", "api"),
            tenant=fields.get("tenant", ""),
        )

    async def submit(self, plan: PlannedSuite, **fields: Unpack[EvalFields]) -> Handle:
        """Hand it over. The same suite on the same commits is one task, until it fails: then what is missing is done.

        What was judged before, by this suite or another, is not done again.
        """
        return await self.muster.submit_repeatable(await self.request(plan, **fields))

    async def report(self, task_id: str) -> EvalReport:
        """The whole of it. `UnderWay` while it is under way, `BadInput` when it ended before there was one."""
        record = await self.muster.record(task_id)
        if record.agent != EVAL:
            raise BadInput(f"the task {task_id} is no evaluation", hint="see what there is with: muster task list")
        result = await self.muster.result(task_id)
        if result is None:
            raise UnderWay(f"the evaluation {task_id} is under way", hint="follow it to its end")
        if report_of(result) is None:
            raise BadInput(f"the task {task_id} has no report", hint=f"muster task show {task_id}")
        return EvalReport.model_validate_json(await self.muster.attachment(result, REPORT_NAME))

    async def recordings(self, task_id: str, folder: Path) -> list[Path]:
        """Write what was recorded below `folder`, where `recorded` finds it again; the files.

        `BadInput` for a report with names that no suite has: who has a worker's password can write one.
        """
        recorded = [sample for sample in (await self.report(task_id)).samples if sample.cassette]
        files = [_cassette_in(folder, _key(sample)) for sample in recorded]
        for sample, file in zip(recorded, files, strict=True):
            content = await self.muster.transport.blobs.get(sample.cassette)
            await asyncio.to_thread(_write, file, content)
        return files

    async def _cassettes(self, plan: PlannedSuite, folder: Path) -> Mapping[str, BlobRef]:
        found: dict[str, BlobRef] = {}
        for sample in plan.samples:
            file = _cassette_in(folder, sample.key)
            try:
                content = await asyncio.to_thread(file.read_bytes)
            except OSError as e:
                hint = "record the suite first: --record DIR"
                raise BadInput(f"the sample {sample.key} was not recorded: {file}: {e.strerror}", hint=hint) from e
            found[sample.key] = await self.muster.transport.blobs.put(content)
        return found


def _default_model(card: AgentCard, workers: Sequence[WorkerCard]) -> str:
    return next((each.model for each in workers if each.pool == card.pool and each.model), "")


def _key(sample: SampleReport) -> str:
    try:
        case, variant = _NAMES.validate_python((sample.case, sample.variant))
    except ValidationError as e:
        what = f"the report has a sample of {sample.case!r} and {sample.variant!r}, names that no suite has"
        raise BadInput(what, hint="no orchestrator wrote it: change the passwords of the fleet's Redis") from e
    return f"{case}/{variant}/{sample.number}"


def _cassette_in(folder: Path, key: str) -> Path:
    return folder / f"{key}.jsonl"


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as e:
        require_room(e, file.parent)
        raise BadInput(f"{file} cannot be written: {e.strerror}", hint="name another folder: --record DIR") from e
