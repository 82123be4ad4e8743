"""A plan as a graph: what comes before what. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from envelope.plan import Plan, PlanStep


def as_graph(plan: Plan) -> Plan:
    """The plan, whose steps are a chain where none of them says what it depends on.

    >>> steps = [PlanStep(step_id=name, title=name, goal=name, agent="build") for name in ("a", "b", "c")]
    >>> [step.depends_on for step in as_graph(Plan(goal="", steps=steps)).steps]
    [(), ('a',), ('b',)]
    """
    if any("depends_on" in step.model_fields_set for step in plan.steps):
        return plan
    earlier = ((), *((step.step_id,) for step in plan.steps))
    linked = (step.model_copy(update={"depends_on": before}) for step, before in zip(plan.steps, earlier, strict=False))
    return plan.model_copy(update={"steps": tuple(linked)})


def in_order(plan: Plan) -> list[PlanStep]:
    """Each step after those that it depends on, else as they stand. What waits for itself or for nothing known is left
    out.

    >>> late = PlanStep(step_id="a", title="", goal="", agent="build", depends_on=("b",))
    >>> early = PlanStep(step_id="b", title="", goal="", agent="build")
    >>> [step.step_id for step in in_order(Plan(goal="", steps=(late, early)))]
    ['b', 'a']
    """
    left, placed, ordered = list(plan.steps), set[str](), list[PlanStep]()
    while (following := next((step for step in left if placed.issuperset(step.depends_on)), None)) is not None:
        left.remove(following)
        placed.add(following.step_id)
        ordered.append(following)
    return ordered


def circle_in(plan: Plan) -> list[str]:
    """Steps that wait for each other, the first one again at the end; none when there is no circle."""
    stuck = {step.step_id: step for step in plan.steps} if len(in_order(plan)) < len(plan.steps) else {}
    for step in in_order(plan):
        stuck.pop(step.step_id, None)
    path: list[str] = []
    here = next(iter(stuck), None)
    while here is not None and here not in path:
        path.append(here)
        here = next((other for other in stuck[here].depends_on if other in stuck), None)
    return [*path[path.index(here) :], here] if here is not None else []


def longest_ms(plan: Plan) -> int:
    """How long the steps may take, one after the other where they must; one without a deadline counts for nothing."""
    ends: dict[str, int] = {}
    for step in in_order(plan):
        ends[step.step_id] = max((ends[other] for other in step.depends_on), default=0) + (step.deadline_ms or 0)
    return max(ends.values(), default=0)


def needs(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """By step: all that come before it, at any distance, in their order."""
    ordered = in_order(plan)
    found: dict[str, set[str]] = {}
    for step in ordered:
        found[step.step_id] = set(step.depends_on).union(*(found[other] for other in step.depends_on))
    return {
        step_id: tuple(step.step_id for step in ordered if step.step_id in before) for step_id, before in found.items()
    }
