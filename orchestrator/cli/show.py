"""One task as people read it, whether it has just ended or ended long ago."""

from __future__ import annotations

from dataclasses import replace

from envelope.messages import TaskResult
from transport.base import TaskRecord

from ..batch.report import report_of
from ..client import Muster
from ..evaluation.report import report_of as eval_report_of
from ..life_lines import life_lines, life_of
from ..session.fold import Session
from ..submit import BATCH, EVAL, FANOUT, is_goal
from .console import answer
from .listing import print_tasks
from .plan_lines import plan_lines
from .request import readable_request, request_lines
from .summary import print_lines, summary_of_batch, summary_of_eval, summary_of_fanout, summary_of_run


async def show_task(muster: Muster, record: TaskRecord) -> None:
    """What a task is, how it went, and what it came to if it has ended."""
    told = await life_of(muster, record.task_id, record.trace_id)
    print_tasks([told.record], now_ms=told.now_ms, as_json=False)
    print_lines([*request_lines(await readable_request(muster, record.task_id)), *life_lines(told)])
    view = replace(await muster.tree(record.trace_id), root=record.task_id)
    for plan in [task.plan for task in view.tasks.values() if task.plan]:
        head, *steps = plan_lines(plan)
        print_lines([("plan", head.removeprefix("plan, ")), *(("", step) for step in steps)])
    if told.life.result is not None:
        await show_result(muster, view, told.life.result)


async def show_result(muster: Muster, view: Session, result: TaskResult) -> None:
    """The answer on stdout, the summary for people."""
    if result.output.text:
        answer(await muster.answer(result))
    request = await muster.request(result.task_id)
    cap = request.budget.max_cost_microusd
    if request.agent == BATCH:
        summary_of_batch(view, result, report_of(result), cap_microusd=cap, published=()).print()
    elif request.agent == EVAL:
        summary_of_eval(view, result, eval_report_of(result)).print()
    elif request.agent == FANOUT:
        summary_of_fanout(view, result, cap_microusd=cap).print()
    else:
        summary_of_run(view, result, cap_microusd=cap, is_goal=is_goal(request)).print()
