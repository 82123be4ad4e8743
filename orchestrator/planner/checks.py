"""What is wrong with a plan, before any of it is started: one sentence each, and what would work. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envelope.budget import MICROUSD_PER_USD
from envelope.errors import ScopeExceeded
from envelope.plan import OnFailure, Plan, PlanStep
from envelope.scope import Scope, narrow

from ..errors import BadInput, near_miss
from .graph import circle_in, longest_ms

MAX_STEPS = 50
MAX_REPLANS = 3  # what four plans did not reach, a fifth will not
# The goal of a step is the prompt of an agent; the rest stands in lists.
MAX_CHARS: Mapping[str, int] = {"step_id": 40, "title": 200, "goal": 8_000}


@dataclass(frozen=True, slots=True)
class Fault:
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a plan must fit into. `agents`: who may do a step, and what each may do; None where that is not known."""

    agents: Mapping[str, Scope] | None = None
    scope: Scope | None = None
    max_cost_microusd: int | None = None
    deadline_ms: int | None = None


def checked(plan: Plan, bounds: Bounds) -> Plan:
    """The same plan; `BadInput` with its first fault."""
    for fault in faults_of(plan, bounds):
        raise BadInput(fault.message, hint=fault.hint)
    return plan


def faults_of(plan: Plan, bounds: Bounds = Bounds()) -> Iterator[Fault]:
    """`plan` as a graph (`as_graph`)."""
    yield from _of_all(plan)
    for step in plan.steps:
        yield from _of_texts(step)
        yield from _of_grants(step, bounds)
        yield from _of_references(step, plan)
    if circle := circle_in(plan):
        yield Fault(f"these steps wait for each other: {' -> '.join(circle)}", "take one depends_on out")
        return
    yield from _of_money(plan, bounds)
    yield from _of_time(plan, bounds)


def _of_all(plan: Plan) -> Iterator[Fault]:
    if not plan.steps:
        yield Fault("the plan has no steps", "give it one at least")
    if len(plan.steps) > MAX_STEPS:
        yield Fault(f"the plan has {len(plan.steps)} steps, more than {MAX_STEPS}", "make larger ones")
    replans = plan.max_replans if plan.allow_replan else 0
    if replans > MAX_REPLANS:
        yield Fault(f"the plan may be made again {replans} times, more than {MAX_REPLANS}", "lower its max_replans")
    asking = next((step.step_id for step in plan.steps if step.on_failure is OnFailure.REPLAN), None)
    if asking is not None and replans < 1:
        hint = "set allow_replan = true, and max_replans"
        yield Fault(f"the step {asking!r} asks for another plan when it fails, and the plan allows none", hint)
    counts = Counter(step.step_id for step in plan.steps)
    for step_id, count in counts.items():
        if count > 1:
            yield Fault(f"{count} steps are called {step_id!r}", "give each a step_id of its own")


def _of_texts(step: PlanStep) -> Iterator[Fault]:
    for name in ("step_id", "title"):
        if not getattr(step, name).isprintable():
            yield Fault(
                f"the {name} of the step {step.step_id[:40]!r} is not one line of text", "leave line breaks out"
            )
    for name, most in MAX_CHARS.items():
        text: str = getattr(step, name)
        if not text.strip() and name != "title":
            yield Fault(f"the step {step.step_id!r} has no {name}", f"say its {name}")
        if len(text) > most:
            yield Fault(f"the {name} of the step {step.step_id[:40]!r} has {len(text)} characters", f"say it in {most}")


def _of_grants(step: PlanStep, bounds: Bounds) -> Iterator[Fault]:
    agents = bounds.agents
    if agents is not None and step.agent not in agents:
        hint = near_miss(step.agent, agents)
        yield Fault(f"the step {step.step_id!r} names an agent {step.agent!r} that there is not", hint)
        return
    known_scopes = (bounds.scope, agents[step.agent] if agents is not None else None)
    for most in (scope for scope in known_scopes if scope is not None):
        try:
            narrow(most, step.auth_scope)
        except ScopeExceeded as e:
            yield Fault(f"the step {step.step_id!r} wants too much: {e.message}", e.hint)
            return


def _of_references(step: PlanStep, plan: Plan) -> Iterator[Fault]:
    ids = {other.step_id for other in plan.steps}
    for other in step.depends_on:
        if other not in ids:
            yield Fault(
                f"the step {step.step_id!r} depends on {other!r}, which is no step",
                near_miss(other, ids - {step.step_id}),
            )


def _of_money(plan: Plan, bounds: Bounds) -> Iterator[Fault]:
    cap = bounds.max_cost_microusd
    wanted = sum(step.budget.max_cost_microusd or 0 for step in plan.steps)
    if cap is not None and wanted > cap:
        yield Fault(
            f"the steps may spend {_usd(wanted)} together, and the goal has {_usd(cap)}",
            "give them smaller budgets, or the goal a larger one",
        )


def _of_time(plan: Plan, bounds: Bounds) -> Iterator[Fault]:
    longest = longest_ms(plan)
    if bounds.deadline_ms is not None and longest > bounds.deadline_ms:
        yield Fault(
            f"the steps may take {longest // 1000} s, and there are {bounds.deadline_ms // 1000} s",
            "give them shorter deadlines, or the goal a longer one",
        )


def _usd(microusd: int) -> str:
    return f"${microusd / MICROUSD_PER_USD:.2f}"
