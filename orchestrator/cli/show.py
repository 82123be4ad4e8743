"""One task as people read it, whether it has just ended or ended long ago."""

from __future__ import annotations

from envelope.lifecycle import TERMINAL
from envelope.messages import TaskResult
from transport.base import TaskRecord

from ..batch.report import BatchReport
from ..client import Muster
from ..submit import BATCH
from ..trace_view import TraceView, fold, new_view
from .console import answer
from .listing import print_tasks
from .summary import summary_of_batch, summary_of_run


async def show_task(muster: Muster, record: TaskRecord) -> None:
    """What a task is, and what it came to if it has ended."""
    print_tasks([record], now_ms=await muster.transport.now_ms(), as_json=False)
    result = await muster.result(record.task_id)
    if result is not None:
        await show_result(muster, await _view_of(muster, record), result)


async def show_result(muster: Muster, view: TraceView, result: TaskResult) -> None:
    """The answer on stdout, the summary for people."""
    if result.output.text:
        answer(result.output.text)
    request = await muster.request(result.task_id)
    cap = request.budget.max_cost_microusd
    report = report_of(result) if request.agent == BATCH else None
    if report is not None:
        summary_of_batch(view, result, report, cap_microusd=cap, published=()).print()
    else:
        summary_of_run(view, result, cap_microusd=cap).print()


def report_of(result: TaskResult) -> BatchReport | None:
    """None when the batch ended before there was anything to report."""
    return BatchReport.model_validate(result.output.structured) if result.output.structured else None


async def _view_of(muster: Muster, record: TaskRecord) -> TraceView:
    """What the stream of an ended trace tells, read again."""
    view = new_view(record.task_id, record.trace_id, agent=record.agent)
    roots = await muster.tasks(trace_id=record.trace_id, limit=1)
    if not roots or roots[0].state not in TERMINAL:
        return view  # its stream has no end yet
    async for entry in muster.follow(record.trace_id):
        view = fold(view, entry)
    return view
