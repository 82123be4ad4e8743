"""What a batch or a goal came to, written where a CI system looks for it.

A report is told, not judged: whatever goes wrong with it is one line, and the exit code stays what the work came to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envelope.errors import FREE, NO_ROOM
from envelope.messages import TaskResult

from ..batch.ended import report_of_goal, report_of_none
from ..batch.formats import FORMATS
from ..batch.formats.outputs import outputs
from ..batch.report import REPORT_NAME, BatchReport, report_of
from ..client import Muster
from ..submit import BATCH
from .console import warn
from .outcome import exit_code_of
from .report_forms import OUTPUTS, Wanted


async def write_reports(muster: Muster, wanted: Sequence[Wanted], result: TaskResult | None) -> None:
    """One after the other: what cannot be written keeps none of the others back."""
    if result is None or not wanted:
        return
    try:
        report = await report_for(muster, result)
    except Exception as e:  # whatever it is: the work has ended, and its exit code is known
        warn(f"no report was written: {e}", "see it with: muster batch report TASK")
        return
    write_each(wanted, lambda form: formed(form, report, result))


def write_each(wanted: Iterable[Wanted], text_of: Callable[[str], str]) -> None:
    """`text_of`: the report in one form."""
    for each in wanted:
        try:
            each.path.parent.mkdir(parents=True, exist_ok=True)
            each.path.write_text(text_of(each.form), encoding="utf-8")
        except OSError as e:
            message = f"the report {each.form} was not written to {each.path}: {e.strerror}"
            warn(message, FREE if e.errno in NO_ROOM else "")


async def report_for(muster: Muster, result: TaskResult) -> BatchReport:
    """The whole of it. A goal's, and that of a batch which ended before it had any, are made from the result."""
    request = await muster.request(result.task_id)
    if request.agent == BATCH and report_of(result) is not None:
        return BatchReport.model_validate_json(await muster.attachment(result, REPORT_NAME))
    cost = await muster.cost(result.trace_id)
    made = report_of_none if request.agent == BATCH else report_of_goal
    return made(request, result, cost_microusd=cost.spent_microusd)


def formed(form: str, report: BatchReport, result: TaskResult) -> str:
    if form == OUTPUTS:
        return outputs(report, result, exit_code_of(result))
    return FORMATS[form](report)
