"""A sample as a goal. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import TaskRequest, Workspace

from ..driver import Work
from ..submit import DRIVERS, RUN, GoalParams, keyed, scope_of_goal, task_request
from .matrix import Sample, prompt_of
from .outcomes import is_final
from .request import EvalParams
from .spec import Case, SuiteSpec

# No model is asked. A worker of yesterday, which knows no recordings and would ask one, is held by this.
REPLAY_MICROUSD = 1


def sample_cap(params: EvalParams, sample: Sample, whole_microusd: int | None, count: int) -> int | None:
    """What one sample may spend: as its case says, or the suite, or an equal part of the whole."""
    if params.cassettes is not None:
        return REPLAY_MICROUSD
    return sample_cap_of(params.spec, sample.case, whole_microusd, count)


def sample_cap_of(spec: SuiteSpec, case: Case, whole_microusd: int | None, count: int) -> int | None:
    usd = case.budget_usd or spec.limits.sample_budget_usd
    if usd is not None:
        return round(usd * MICROUSD_PER_USD)
    return None if whole_microusd is None else whole_microusd // max(1, count)


def hidden_of(params: EvalParams, sample: Sample) -> str:
    """The commit with the sample's hidden tests; empty where there are none."""
    given = params.cases[sample.case.name].hidden
    return given.base if given else ""


def sample_work(request: TaskRequest, params: EvalParams, sample: Sample, *, cap_microusd: int | None) -> Work:
    """Found again by what it is: the case at its commit, the variant with its agent and model, the number of the try,
    and its limits. Its deadline is its own, whatever is left of the suite's."""
    spec, case, given = params.spec, sample.case, params.cases[sample.case.name]
    gate = case.gate or spec.gate
    assert gate is not None  # the form has seen to it
    setup = spec.setup if case.setup is None else case.setup
    goal = GoalParams(
        **params.agents[sample.variant.agent].model_dump(),
        gate=gate.commands,
        min_tests=gate.min_tests,
        gate_rules=gate.rules(),
        record=params.record,
        hidden=given.hidden,
        replay=params.cassettes[sample.key] if params.cassettes is not None else None,
        temperature=sample.variant.temperature,
    )
    deadline_ms = case.deadline_s * 1000 if case.deadline_s else params.sample_deadline_ms
    digest, model = params.made_of.get(sample.variant.agent, ("", ""))
    child = task_request(
        driver=request,
        agent=RUN,
        pool=DRIVERS,
        prompt=prompt_of(spec, sample),
        params=goal.model_dump(mode="json"),
        workspace=Workspace(bundle=given.bundle, base=given.base, setup=setup),
        auth_scope=scope_of_goal(goal),
        budget=request.budget.model_copy(update={"max_cost_microusd": cap_microusd, "waits_at_cap": False}),
        deadline_ms=deadline_ms,
        intent=f"eval: {sample.key}"[:200],
        model=sample.variant.model,
        sender="eval",
    )
    more = (digest, sample.variant.model or model, str(cap_microusd), str(deadline_ms), sample.key)
    reusable = partial(is_final, hidden=hidden_of(params, sample))
    return Work(sample.key, keyed(child, "sample", *more), sample.key, reusable=reusable)


def within(work: Work, own_ms: int, left_ms: int) -> Work:
    """The work with its own time, or what is left. Its key stays: who comes after a restart, with less, finds it."""
    deadline_ms = max(1, min(own_ms, left_ms))
    return replace(work, request=work.request.model_copy(update={"deadline_ms": deadline_ms}))
