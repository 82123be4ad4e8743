"""A living plan, and a list of todos, as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envelope.events import Todo
from envelope.plan import Plan, PlanStep, StepStatus

GLYPHS: dict[str, str] = {
    StepStatus.PENDING: "·",
    StepStatus.RUNNING: "●",
    StepStatus.DONE: "✔",
    StepStatus.FAILED: "✘",
    StepStatus.SKIPPED: "⊘",
    "in_progress": "●",
    "completed": "✔",
    "cancelled": "⊘",
}


def plan_lines(plan: Plan) -> Iterator[str]:
    yield f"plan, version {plan.version}{f': {plan.goal}' if plan.goal else ''}"
    yield from (f"  {GLYPHS[step.status]} {_step(step)}" for step in plan.steps)


def _step(step: PlanStep) -> str:
    after = f", after {', '.join(step.depends_on)}" if step.depends_on else ""
    outcome = f": {step.outcome}" if step.outcome else ""
    return f"{step.step_id} {step.title} ({step.agent}{after}){outcome}"


def todo_lines(todos: Sequence[Todo]) -> Iterator[str]:
    yield f"todos, {len(todos)}"
    yield from (f"  {GLYPHS[todo.status]} {todo.content}" for todo in todos)
