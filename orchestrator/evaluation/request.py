"""The request of a suite."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from envelope.budget import Budget
from envelope.ids import BlobRef
from envelope.messages import TaskRequest
from envelope.scope import Scope
from envelope.wire import Wire

from ..settings import Settings
from ..submit import DRIVERS, EVAL, RECIPE_SCOPE, GoalStep, HiddenTests, keyed, task_request
from .spec import SuiteSpec


class CaseInput(Wire):
    """A case's code: the commit `base` in `bundle`, and on it the commit that its gate has, where tests are hidden."""

    bundle: BlobRef
    base: str
    hidden: HiddenTests | None = None


class EvalParams(Wire):
    """`input.params` of a suite's driver. `agents`: who its variants name, as workers offer them, and `made_of`: each
    one's digest, and the model that answers where neither it nor its variant names one. `cassettes`: by a sample's key,
    what its model said once and says again."""

    spec: SuiteSpec
    cases: dict[str, CaseInput]
    agents: dict[str, GoalStep]
    made_of: dict[str, tuple[str, str]] = Field(default_factory=dict[str, tuple[str, str]])
    sample_deadline_ms: int
    record: bool = False
    cassettes: dict[str, BlobRef] | None = None


def eval_request(
    spec: SuiteSpec,
    cases: Mapping[str, CaseInput],
    agents: Mapping[str, GoalStep],
    *,
    made_of: Mapping[str, tuple[str, str]] | None = None,
    settings: Settings,
    record: bool = False,
    cassettes: Mapping[str, BlobRef] | None = None,
    sender: str = "cli",
    tenant: str = "",
) -> TaskRequest:
    """The same suite on the same commits has the same key; `Muster.submit_repeatable` repeats one that failed."""
    limits = spec.limits
    deadline_s = limits.sample_deadline_s
    params = EvalParams(
        spec=spec,
        cases=dict(cases),
        agents=dict(agents),
        made_of=dict(made_of or {}),
        sample_deadline_ms=deadline_s * 1000 if deadline_s else settings.deadline_ms,
        record=record,
        cassettes=None if cassettes is None else dict(cassettes),
    )
    cap = limits.budget_microusd(settings.budget_microusd)
    request = task_request(
        agent=EVAL,
        pool=DRIVERS,
        prompt=spec.name,
        params=params.model_dump(mode="json"),
        auth_scope=_scope(agents),
        budget=Budget(max_cost_microusd=cap),
        deadline_ms=limits.deadline_s * 1000 if limits.deadline_s else settings.limits.max_deadline_ms,
        tenant=tenant or settings.tenant,
        sender=sender,
    )
    return keyed(request, str(cap))


def _scope(agents: Mapping[str, GoalStep]) -> Scope:
    """All samples fit into it."""
    grants = (grant for step in agents.values() for grant in step.auth_scope)
    return tuple(dict.fromkeys((*grants, *RECIPE_SCOPE)))
