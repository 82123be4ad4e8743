"""What a task is at, in the words of every tree: the terminal's, `muster top`'s and the console's. Pure."""

from __future__ import annotations

from envelope.events import BudgetReached
from envelope.lifecycle import State
from envelope.plan import Plan, StepStatus

from ..units import dollars, duration, tokens
from ..words import plain, reason_text
from .fold import Session
from .line import At
from .task import TaskView

GLYPH: dict[State, str] = {
    State.PENDING: "·",
    State.RUNNING: "●",
    State.WAITING: "◌",
    State.COMPLETED: "✔",
    State.ERROR: "✘",
    State.CANCELLED: "⊘",
    State.EXPIRED: "⌛",
}
# Where there is no room for all: what moves first, then what went wrong, then what waits, then what is done.
INTEREST = [State.RUNNING, State.WAITING, State.ERROR, State.EXPIRED, State.CANCELLED, State.PENDING, State.COMPLETED]
STEPS_OVER = (StepStatus.DONE, StepStatus.SKIPPED)


def budget_reached(event: BudgetReached) -> str:
    """Money in dollars, all else as it is counted.

    >>> budget_reached(BudgetReached(limit="cost", spent=2_500_000, allowed=2_000_000, whose="tenant"))
    "budget reached: $2.50 of the tenant's $2.00 (cost)"
    >>> budget_reached(BudgetReached(limit="tool_calls", spent=5, allowed=5))
    'budget reached: 5 of 5 (tool calls)'
    """
    spent, allowed = (dollars(each) if event.limit == "cost" else f"{each}" for each in (event.spent, event.allowed))
    whose = "" if event.whose == "task" else f"the {event.whose}'s "
    return f"budget reached: {spent} of {whose}{allowed} ({event.limit.replace('_', ' ')})"


def doing_with(view: Session, task: TaskView) -> str:
    """What a task is at; of one with others at work below it also how many of them have ended. Each has its own row,
    and that of a driver's only one says all."""
    ended = [view.tasks[child].ended for child in task.children]
    if task.ended or all(ended) or (len(ended) == 1 and not task.turn):
        return doing(task)
    return " · ".join(part for part in (f"{sum(ended)}/{len(ended)} ended", doing(task)) if part)


def doing(task: TaskView) -> str:
    """What a task is at, or how it ended when that says more than its state."""
    if task.ended:
        return plain(task.error.partition("\n")[0]) or ("as before" if task.reused else "")
    if task.asks:
        return "asks: " + plain(next(iter(task.asks.values())))
    if task.state is State.WAITING and (stop := task.stopped_by):
        return f"waits for money: {dollars(stop.spent)} of the {stop.whose}'s {dollars(stop.allowed)} are spent"
    if task.state is not State.RUNNING and task.reason:
        return reason_text(task.reason)
    plan = [how_far(task.plan)] if task.plan else []
    tool = task.current_tool
    now = f"{tool.tool} {tool.title}".strip() if tool else "thinking" if task.turn else _drives(task)
    return plain(" · ".join([*([now] if now else []), *plan]))


def _drives(task: TaskView) -> str:
    return "putting together" if task.own_line and task.own_line[-1][0] is At.TOGETHER else ""


def figures(task: TaskView, now_ms: int) -> tuple[str, str, str, str]:
    """Its turns, tokens, cost and time; empty where there is nothing to say."""
    used = task.usage.total_tokens
    started, ended = task.started_at_ms, task.ended_at_ms
    return (
        f"{task.turn} turns" if task.turn > 1 else "1 turn" if task.turn else "",
        tokens(used) if used else "",
        dollars(task.cost_microusd) if task.cost_microusd else "",
        duration((ended or now_ms) - started) if started is not None else "",
    )


def how_far(plan: Plan) -> str:
    """
    >>> from envelope.plan import PlanStep
    >>> steps = [PlanStep(step_id=s, title=s, goal="", agent="build", status=s) for s in ("done", "running", "pending")]
    >>> how_far(Plan(goal="", steps=steps))
    'plan 1/3: running'
    """
    done = sum(step.status in STEPS_OVER for step in plan.steps)
    now = next((step.title for step in plan.steps if step.status is StepStatus.RUNNING), "")
    return f"plan {done}/{len(plan.steps)}{f': {now}' if now else ''}"
