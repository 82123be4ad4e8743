"""The driver of one suite: a goal for each sample, at most so many at once, and a report of them all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from envelope.errors import ErrorCode
from envelope.messages import Attachment, ErrorInfo, Output, TaskResult

from ..batch.retries import is_worth_another_try
from ..driver import Driver, Ended, Work, ended_with
from ..submit import params_of
from .matrix import Sample, samples_of, variants_of
from .outcomes import SampleReport, not_run, sample_report
from .purse import Purse
from .report import REPORT_NAME, EvalReport, concluded
from .request import EvalParams
from .table import text_of
from .work import sample_cap, sample_work

# Of the suite's own time: what it takes to put the report together before its deadline.
CONCLUDING_MS = 10_000
MAX_CASSETTES = 500  # named in the result, which is at most 1 MiB
NO_MONEY = "the suite's budget has no room for it"
NO_TIME = "the suite's time was over"


async def drive_eval(driver: Driver) -> TaskResult:
    """Everything that is submitted has a content key, so that this can be killed anywhere and run again."""
    params = params_of(EvalParams, driver.request)
    variants = variants_of(params.spec)
    samples = samples_of(params.spec, variants)
    purse = Purse(None if params.cassettes is not None else driver.request.budget.max_cost_microusd)
    run = _Run(driver, params, len(samples), purse)
    try:
        reports = await run.all(samples)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    cap = driver.request.budget.max_cost_microusd
    paid = purse.spent_microusd
    report = await asyncio.to_thread(concluded, params.spec, variants, reports, paid=paid, cap=cap)
    return ended_with(
        driver,
        *_errors(report),
        output=Output(text=text_of(report), structured=report.abridged().model_dump(mode="json")),
        attachments=(await _attached(driver, report), *_cassettes(reports)),
    )


@dataclass(slots=True)
class _Run:
    driver: Driver
    params: EvalParams
    count: int
    purse: Purse
    ended: dict[str, SampleReport] = field(default_factory=dict[str, SampleReport])

    async def all(self, samples: Sequence[Sample]) -> list[SampleReport]:
        """In the order of the samples, which is that in which they begin."""
        places = asyncio.Semaphore(self.params.spec.limits.concurrency)
        why = ""
        async with asyncio.TaskGroup() as group:
            for sample in samples:
                await places.acquire()
                cap = sample_cap(self.params, sample, self.purse.cap_microusd, self.count)
                if self._left_ms <= 0:
                    why = NO_TIME
                elif not await self.purse.hold(cap or 0):
                    why = NO_MONEY
                if why:
                    break
                group.create_task(self._one(sample, cap, places))
        return [self.ended.get(sample.key) or not_run(sample, why) for sample in samples]

    @property
    def _left_ms(self) -> int:
        return self.driver.remaining_ms - CONCLUDING_MS

    async def _one(self, sample: Sample, cap: int | None, places: asyncio.Semaphore) -> None:
        request, held = self.driver.request, cap or 0
        left_ms = self._left_ms
        work = sample_work(request, self.params, sample, cap_microusd=cap, remaining_ms=left_ms)
        try:
            while True:
                ended = await self._ended(work)
                await self.purse.pay(held, ended.cost_microusd)
                is_lost = is_worth_another_try(ended) and not ended.reused
                if not (is_lost and await self.purse.hold(held)):
                    break
                work = work.again(ended.result.task_id)
        finally:
            places.release()
        given = self.params.cases[sample.case.name].hidden
        hidden = given.base if given else ""
        transport = self.driver.transport
        report = await sample_report(transport, sample, ended.result, hidden=hidden, reused=ended.reused)
        cut_short = report.outcome == "deadline" and work.request.deadline_ms == left_ms
        self.ended[sample.key] = not_run(sample, NO_TIME) if cut_short else report

    async def _ended(self, work: Work) -> Ended:
        async with aclosing(self.driver.run([work])) as endings:
            async for ended in endings:
                return ended
        raise AssertionError("`run` ends after every work has")


def _errors(report: EvalReport) -> list[ErrorInfo]:
    """What was left undone comes before what was required of the rest. The first decides the exit code."""
    again = "run the same suite again: what was done is not done again"
    undone = [sample for sample in report.samples if sample.outcome == "not_run"]
    failed = [sample for sample in report.samples if sample.outcome == "failed"]
    errors: list[ErrorInfo] = []
    if undone:
        code = ErrorCode.DEADLINE if undone[0].detail == NO_TIME else ErrorCode.BUDGET
        hint = "raise limits.deadline_s" if code is ErrorCode.DEADLINE else "raise limits.budget_usd"
        message = f"{len(undone)} of {len(report.samples)} samples were not run: {undone[0].detail}"
        errors.append(ErrorInfo.of(code, message, f"{hint}, and {again}"))
    if failed:
        first = failed[0]
        alone = len(failed) == len(report.samples) and first.code
        code = ErrorCode(first.code) if alone else ErrorCode.PARTIAL
        message = f"{len(failed)} of {len(report.samples)} samples failed; the first: {first.detail}"
        mend = first.hint or f"see it: muster task show {first.task_id}"
        errors.append(ErrorInfo.of(code, message, f"{mend}; then {again}"))
    errors += [ErrorInfo.of(ErrorCode.GATE_FAILED, unmet, "this is what [require] asks for") for unmet in report.unmet]
    return errors


async def _attached(driver: Driver, report: EvalReport) -> Attachment:
    content = report.model_dump_json(indent=1).encode()
    blob = await driver.transport.blobs.put(content)
    return Attachment(blob=blob, name=REPORT_NAME, media_type="application/json", size_bytes=len(content))


def _cassettes(reports: Sequence[SampleReport]) -> tuple[Attachment, ...]:
    """So that what keeps the suite's result keeps its recordings. The others' are kept by their samples' own."""
    recorded = [one for one in reports if one.cassette][:MAX_CASSETTES]
    named = ((f"{one.case}/{one.variant}/{one.number}.jsonl", one.cassette) for one in recorded)
    return tuple(Attachment(blob=blob, name=name, media_type="application/jsonl") for name, blob in named)
