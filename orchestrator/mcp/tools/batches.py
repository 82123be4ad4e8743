"""How far batches are, and what they came to."""

from __future__ import annotations

from pydantic import BaseModel

from envelope.budget import MICROUSD_PER_USD

from ...batch.formats import FORMATS
from ..text import DATA, Page, line, page
from ..tool import Call
from .looking import WhichDiff, WhichTask

MAX_FAILED = 20


class BatchProgress(BaseModel):
    """`tasks`: how many of its shards, gates and repairs are in which state."""

    note: str = DATA
    task_id: str
    name: str
    state: str
    tasks: dict[str, int]
    cost_usd: float
    failed: list[str]
    next: str


class BatchOutcome(BaseModel):
    note: str = DATA
    task_id: str
    name: str
    verified: bool
    repositories: dict[str, str]
    shards: dict[str, int]
    cost_usd: float
    report: Page


async def batch_status(call: Call, said: WhichTask) -> BatchProgress:
    """How far a batch is: its tasks by state, what failed and why, what it has cost."""
    await call.caller.record(said.task_id)
    found = await call.caller.muster.batches.status(said.task_id)
    return BatchProgress(
        task_id=found.task_id,
        name=line(found.name),
        state=str(found.state),
        tasks=found.tasks,
        cost_usd=found.cost_microusd / MICROUSD_PER_USD,
        failed=[line(f"{each.title}: {each.error}") for each in found.failed[:MAX_FAILED]],
        next="call batch_report when it has ended; task_result with wait_s waits for that",
    )


async def batch_report(call: Call, said: WhichDiff) -> BatchOutcome:
    """What a batch came to: shards by outcome, each repository's commit, and the report in Markdown, page by page."""
    await call.caller.record(said.task_id)
    report = await call.caller.muster.batches.report(said.task_id)
    counts: dict[str, int] = {}
    for shard in report.shards:
        counts[shard.outcome] = counts.get(shard.outcome, 0) + 1
    return BatchOutcome(
        task_id=said.task_id,
        name=line(report.name),
        verified=report.verified,
        repositories={line(one.name): one.commit for one in report.repositories},
        shards=counts,
        cost_usd=report.cost_microusd / MICROUSD_PER_USD,
        report=page(FORMATS["markdown"](report), said.offset),
    )
