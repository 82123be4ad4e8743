"""The driver of one suite: a goal for each sample, at most so many at once, and a report of them all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from envelope.lifecycle import State
from envelope.messages import Attachment, Output, TaskResult

from ..batch.retries import is_worth_another_try
from ..driver import Driver, Ended, Work, ended_with
from ..submit import params_of
from .matrix import Sample, samples_of, variants_of
from .outcomes import SampleReport, failed_as, not_run, sample_report
from .purse import Purse
from .refusals import Refusals
from .report import REPORT_NAME, EvalReport, concluded
from .request import EvalParams
from .table import text_of
from .undone import NO_MONEY, NO_TIME, undone
from .work import hidden_of, sample_cap, sample_work, within

# Of the suite's own time: what it takes to put the report together before its deadline.
CONCLUDING_MS = 10_000
MAX_CASSETTES = 500  # named in the result, which is at most 1 MiB


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
        *undone(report),
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
    refusals: Refusals = field(default_factory=Refusals)

    async def all(self, samples: Sequence[Sample]) -> list[SampleReport]:
        """In the order of the samples, which is that in which they begin."""
        places = asyncio.Semaphore(self.params.spec.limits.concurrency)
        why = ""
        async with asyncio.TaskGroup() as group:
            for sample in samples:
                await places.acquire()
                if (refused := self.refusals.of(sample, self.params.spec)) is not None:
                    self.ended[sample.key] = failed_as(refused, sample)
                    places.release()
                    continue
                cap = sample_cap(self.params, sample, self.purse.cap_microusd, self.count)
                if why := await self._hold(cap or 0):
                    break
                group.create_task(self._one(sample, cap, places))
        return [self.ended.get(sample.key) or not_run(sample, why) for sample in samples]

    async def _hold(self, microusd: int) -> str:
        """Set the money of one sample aside; or why none can begin. Waiting for it takes time, too."""
        if not await self.purse.hold(microusd):
            return NO_MONEY
        if self._left_ms > 0:
            return ""
        await self.purse.pay(microusd, 0)
        return NO_TIME

    @property
    def _left_ms(self) -> int:
        return self.driver.remaining_ms - CONCLUDING_MS

    async def _one(self, sample: Sample, cap: int | None, places: asyncio.Semaphore) -> None:
        hidden = hidden_of(self.params, sample)
        work = sample_work(self.driver.request, self.params, sample, cap_microusd=cap)
        transport = self.driver.transport
        try:
            ended, cut_short = await self._settled(work, cap or 0)
            report = await sample_report(transport, sample, ended.result, hidden=hidden, reused=ended.reused)
            self.ended[sample.key] = not_run(sample, NO_TIME) if cut_short else report
            self.refusals.note(sample, report, found=ended.found)
        finally:
            places.release()  # now, so that whoever begins next has heard of a refusal

    async def _settled(self, work: Work, held: int) -> tuple[Ended, bool]:
        """The last of its tries, and whether the suite's end cut that short. What fails for reasons that say nothing of
        its variant is tried again, as is what the end of an earlier suite cut short. Each try follows from the one
        before it, wherever that was found, so that the next suite comes to the last of them."""
        own_ms = work.request.deadline_ms
        while True:
            ended = await self._ended(within(work, own_ms, self._left_ms))
            await self.purse.pay(held, ended.cost_microusd)
            cut_short = await self._is_cut_short(ended, own_ms)
            lost = not ended.reused and not work.reusable(ended.result) and is_worth_another_try(ended)
            if not (lost or (cut_short and ended.reused)) or await self._hold(held):
                return ended, cut_short
            work = (ended.work.after if ended.reused else ended.work.again)(ended.result.task_id)

    async def _is_cut_short(self, ended: Ended, own_ms: int) -> bool:
        """Was it over before it had its own time? The queue knows what it was given, perhaps by an earlier attempt."""
        if ended.result.status is not State.EXPIRED:
            return False
        record = await self.driver.transport.record(ended.result.task_id)
        return record.expires_at_ms - record.accepted_at_ms < own_ms

    async def _ended(self, work: Work) -> Ended:
        async with aclosing(self.driver.run([work])) as endings:
            async for ended in endings:
                return ended
        raise AssertionError("`run` ends after every work has")


async def _attached(driver: Driver, report: EvalReport) -> Attachment:
    content = report.model_dump_json(indent=1).encode()
    blob = await driver.transport.blobs.put(content)
    return Attachment(blob=blob, name=REPORT_NAME, media_type="application/json", size_bytes=len(content))


def _cassettes(reports: Sequence[SampleReport]) -> tuple[Attachment, ...]:
    """So that what keeps the suite's result keeps its recordings. The others' are kept by their samples' own."""
    recorded = [one for one in reports if one.cassette][:MAX_CASSETTES]
    named = ((f"{one.case}/{one.variant}/{one.number}.jsonl", one.cassette) for one in recorded)
    return tuple(Attachment(blob=blob, name=name, media_type="application/jsonl") for name, blob in named)
