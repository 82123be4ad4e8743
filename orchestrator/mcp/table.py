"""Which tools there are, and what right each takes: the same as the HTTP route that does it."""

from __future__ import annotations

from collections.abc import Mapping

from ..api.tokens import Right
from .tool import Tool
from .tools.batches import batch_report, batch_status
from .tools.looking import list_agents, list_tasks, task_diff, task_result, task_status
from .tools.starting import fan_out, submit_batch, submit_goal
from .tools.steering import answer_ask, background_task, cancel_task, list_asks, prompt_task

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(submit_goal, Right.SUBMIT),
        Tool(fan_out, Right.SUBMIT),
        Tool(submit_batch, Right.SUBMIT),
        Tool(task_status, Right.SEE),
        Tool(task_result, Right.SEE),
        Tool(task_diff, Right.SEE),
        Tool(batch_status, Right.SEE),
        Tool(batch_report, Right.SEE),
        Tool(list_tasks, Right.SEE),
        Tool(list_agents, Right.SEE),
        Tool(list_asks, Right.SEE),
        Tool(prompt_task, Right.SUBMIT),
        Tool(background_task, Right.SUBMIT),
        Tool(cancel_task, Right.SUBMIT, stops=True),
        Tool(answer_ask, Right.APPROVE),
    )
}
