"""`plan_update`: edits the living plan of a session.

The plan needs no store of its own: every change leaves the whole of it in its result, and results are in the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envelope.events import PlanChanged
from envelope.plan import OnFailure, Plan, StepStatus

from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .plan_changes import CHANGES, MAX_CHARS, changed, listed
from .schema import parameters, text

PLAN_UPDATE = "plan_update"
PLAN = "plan"  # in a result's metadata
NO_PLAN = Plan(goal="", version=0)

_OP: dict[str, Any] = parameters(
    ["op"],
    op={"type": "string", "enum": [*CHANGES], "description": "what to do"},
    step_id=text("the step; of a new one a short name, such as a (default: the next free one)"),
    title=text("of add, change: the step in a few words"),
    goal=text("of add, change: all that whoever does it needs to know (default: the title)"),
    agent=text("of add, change: who does it (default: you, or who carries out your plan)"),
    depends_on={"type": "array", "items": {"type": "string"}, "description": "of add, change: steps that come first"},
    on_failure={"type": "string", "enum": [*OnFailure], "description": "of add, change: then what (default stop)"},
    status={"type": "string", "enum": [*StepStatus], "description": "of change: where it is"},
    outcome=text("of done, change: what came of it, in a sentence"),
    before=text("of add, move: the step that it goes before"),
    after=text("of add, move: the step that it goes after (default of add: the last one)"),
)


class PlanUpdate:
    name = PLAN_UPDATE
    description = (
        "Keep the plan of this work up to date: its steps, who does each, what each waits for, how far they are. People"
        " see it, and you are shown it again when the conversation was cut. Name the version that you know; 0 begins a"
        " plan. Steps where none has depends_on are done in their order. Either all ops are done, or none. Mark a step"
        " done at once, with its outcome, and change the plan when what you find makes it wrong."
    )
    parameters = parameters(
        ["version", "ops"],
        version={
            "type": "integer",
            "minimum": 0,
            "description": "the version of the plan that you change; 0: none yet",
        },
        goal={**text("what the plan is for, in a sentence"), "maxLength": MAX_CHARS["goal"]},
        ops={"type": "array", "items": _OP, "minItems": 1, "maxItems": 100, "description": "done in their order"},
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "the plan"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        planning = context.planning
        before = planning.plan or NO_PLAN
        if arguments["version"] != before.version:
            raise ToolError(
                f"the plan was not changed: you named version {arguments['version']}. {_now(planning.plan)}"
            )
        goal = " ".join(arguments.get("goal", before.goal).split())
        try:
            plan = changed(
                before.model_copy(update={"goal": goal}),
                arguments["ops"],
                agents=planning.agents,
                agent=planning.agent,
            )
        except ToolError as e:
            raise ToolError(f"the plan was not changed: {e}") from e
        planning.plan = plan
        context.emit(PlanChanged(plan=plan))
        return ToolResult(listed(plan), how_far(plan), metadata={PLAN: plan.model_dump(mode="json")})


def how_far(plan: Plan) -> str:
    """For people, in a live tree."""
    over = sum(step.status in (StepStatus.DONE, StepStatus.SKIPPED) for step in plan.steps)
    return f"{over} of {len(plan.steps)} steps done"


def _now(plan: Plan | None) -> str:
    if plan is None:
        return "There is no plan yet; name version 0 to begin one"
    return f"Look at it as it is now, and name its version:\n{listed(plan)}"
