"""Changes of a living plan: all of a call's, or none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from envelope.plan import Plan, PlanStep, StepStatus

from ..hints import nearest
from .errors import ToolError

# A plan travels in one event of at most 1 MiB, and stands in requests to the model: these leave much room.
MAX_STEPS = 50
MAX_CHARS: Mapping[str, int] = {"step_id": 40, "title": 200, "goal": 1000, "outcome": 500}

Op = Mapping[str, Any]
Steps = list[PlanStep]


def changed(plan: Plan, ops: Sequence[Op], *, agents: Collection[str], agent: str) -> Plan:
    """The plan after all of `ops`, one version later. `ToolError` says which one cannot be, and what would work.

    `agents` may carry out steps; `agent` does where an op does not say.
    """
    steps: Steps = list(plan.steps)
    for number, op in enumerate(ops, 1):
        try:
            steps = CHANGES[op["op"]](steps, {"agent": agent, **op} if op["op"] == "add" else op)
        except ToolError as e:
            raise ToolError(f"op {number} ({op['op']}): {e}") from e
    _check(steps, agents)
    return plan.model_copy(update={"steps": tuple(steps), "version": plan.version + 1})


def listed(plan: Plan) -> str:
    """The plan for the model.

    >>> first = PlanStep(step_id="a", title="Look", goal="", agent="build", status="done", outcome="in x.py")
    >>> second = PlanStep(step_id="b", title="Mend", goal="the bug", agent="build", depends_on=("a",))
    >>> print(listed(Plan(goal="No bug", version=3, steps=(first, second))))
    Plan, version 3: No bug
    1. [done] a: Look (build) => in x.py
    2. [pending] b: Mend (build, after a): the bug
    """
    head = f"Plan, version {plan.version}{f': {plan.goal}' if plan.goal else ''}"
    return "\n".join([head, *(f"{number}. {_line(step)}" for number, step in enumerate(plan.steps, 1))])


def _line(step: PlanStep) -> str:
    after = f", after {' and '.join(step.depends_on)}" if step.depends_on else ""
    goal = f": {step.goal}" if step.goal and step.goal != step.title else ""
    outcome = f" => {step.outcome}" if step.outcome else ""
    return f"[{step.status}] {step.step_id}: {step.title} ({step.agent}{after}){goal}{outcome}"


def _add(steps: Steps, op: Op) -> Steps:
    title = _required(op, "title")
    step_id = _one_line(op.get("step_id", "")) or _free_id(steps)
    if any(step.step_id == step_id for step in steps):
        raise ToolError(f"there is a step {step_id!r} already; change it, or give the new one another step_id")
    fields = {"goal": title, **_fields(op), "step_id": step_id}
    return _put(steps, PlanStep.model_validate(fields), op, default=len(steps))


def _move(steps: Steps, op: Op) -> Steps:
    if "before" not in op and "after" not in op:
        raise ToolError("say where to: before or after another step")
    step = _named(steps, op)
    return _put([other for other in steps if other is not step], step, op, default=0)


def _change(steps: Steps, op: Op) -> Steps:
    step, fields = _named(steps, op), _fields(op)
    if not fields:
        raise ToolError("say what to change: title, goal, agent, depends_on, on_failure, status or outcome")
    return _with(steps, step, fields)


def _drop(steps: Steps, op: Op) -> Steps:
    step = _named(steps, op)
    return [other for other in steps if other is not step]


def _done(steps: Steps, op: Op) -> Steps:
    return _with(steps, _named(steps, op), {**_fields(op), "status": StepStatus.DONE})


CHANGES: Mapping[str, Callable[[Steps, Op], Steps]] = {
    "add": _add,
    "move": _move,
    "change": _change,
    "drop": _drop,
    "done": _done,
}
FIELDS = ("title", "goal", "agent", "depends_on", "on_failure", "status", "outcome")


def _fields(op: Op) -> dict[str, Any]:
    fields = {name: _one_line(op[name]) if isinstance(op[name], str) else op[name] for name in FIELDS if name in op}
    return fields | ({"depends_on": tuple(dict.fromkeys(op["depends_on"]))} if "depends_on" in op else {})


def _one_line(words: str) -> str:
    """A step is one line of the list, and cannot look like another."""
    return " ".join(words.split())


def _required(op: Op, name: str) -> str:
    if not (words := _one_line(op.get(name, ""))):
        raise ToolError(f"it needs a {name}")
    return words


def _named(steps: Steps, op: Op, key: str = "step_id") -> PlanStep:
    step_id = op.get(key, "")
    found = next((step for step in steps if step.step_id == step_id), None)
    if found is None:
        there = ", ".join(step.step_id for step in steps) or "none"
        raise ToolError(f"there is no step {step_id!r}; there are: {there}")
    return found


def _put(steps: Steps, step: PlanStep, op: Op, *, default: int) -> Steps:
    at = default
    if "before" in op:
        at = steps.index(_named(steps, op, "before"))
    elif "after" in op:
        at = steps.index(_named(steps, op, "after")) + 1
    return [*steps[:at], step, *steps[at:]]


def _with(steps: Steps, step: PlanStep, fields: Mapping[str, Any]) -> Steps:
    new = PlanStep.model_validate({**step.model_dump(), **fields})
    return [new if other is step else other for other in steps]


def _free_id(steps: Steps) -> str:
    taken = {step.step_id for step in steps}
    return next(name for number in range(1, len(steps) + 2) if (name := f"s{number}") not in taken)


def _check(steps: Steps, agents: Collection[str]) -> None:
    if len(steps) > MAX_STEPS:
        raise ToolError(f"a plan has at most {MAX_STEPS} steps, and this has {len(steps)}; make larger ones")
    ids = {step.step_id for step in steps}
    for step in steps:
        for name, most in MAX_CHARS.items():
            if (length := len(getattr(step, name))) > most:
                raise ToolError(
                    f"the {name} of the step {step.step_id[:40]!r} has {length} characters; say it in {most}"
                )
        if step.agent not in agents:
            hint = nearest(step.agent, agents, called="there are")
            raise ToolError(f"the step {step.step_id!r} names an agent {step.agent!r} that does not exist; {hint}")
        if missing := [other for other in step.depends_on if other not in ids]:
            there = ", ".join(sorted(ids - {step.step_id})) or "none"
            raise ToolError(
                f"the step {step.step_id!r} depends on {missing[0]!r}, which is no step; there are: {there}"
            )
    _check_order(steps)


def _check_order(steps: Steps) -> None:
    try:
        TopologicalSorter({step.step_id: step.depends_on for step in steps}).prepare()
    except CycleError as e:
        circle = " -> ".join(reversed(e.args[1]))
        raise ToolError(f"these steps wait for each other: {circle}; take one depends_on out") from e
