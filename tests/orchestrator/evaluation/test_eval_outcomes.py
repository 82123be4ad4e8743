"""What a sample came to, what a suite did not do, and which suites need not begin."""

from __future__ import annotations

import pytest

from envelope.agents import AgentCard, ModelPrice, WorkerCard
from envelope.errors import ErrorCode
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from orchestrator.errors import BadInput
from orchestrator.evaluation.outcomes import SampleReport, is_final, outcome_of
from orchestrator.evaluation.prices import require_prices
from orchestrator.evaluation.report import EvalReport
from orchestrator.evaluation.spec import Variant
from orchestrator.evaluation.undone import NO_MONEY, NO_TIME, undone

TESTS = "c" * 40  # the commit with hidden tests


def result(*codes: ErrorCode, state: State = State.COMPLETED, **structured: object) -> TaskResult:
    names = {"task_id": new_task_id(), "trace_id": "a" * 32, "attempt": 1}
    errors = tuple(ErrorInfo.of(code, "why") for code in codes)
    return TaskResult(**names, status=state, errors=errors, output=Output(structured=structured))


@pytest.mark.parametrize(
    ("ended", "outcome", "final"),
    [
        (result(verified=True, hidden=TESTS), "accepted", True),
        (result(verified=True), "failed", False),
        (result(verified=False), "rejected", True),
        (result(ErrorCode.BUDGET, state=State.ERROR), "budget", True),
        (result(ErrorCode.SANDBOX, state=State.ERROR), "failed", False),
        (result(state=State.EXPIRED), "deadline", True),
    ],
    ids=["by hidden tests", "without them", "rejected", "no money", "no sandbox", "no time"],
)
def test_what_stands_for_a_sample_of_a_later_run_is_what_counts_in_this_one(ended, outcome, final):
    assert (outcome_of(ended, hidden=TESTS), is_final(ended, hidden=TESTS)) == (outcome, final)


def report(*samples: tuple[str, str, str]) -> EvalReport:
    made = (
        SampleReport(case="c", variant="v", number=at, outcome=outcome, code=code, detail=detail, task_id="t")  # type: ignore[arg-type]
        for at, (outcome, code, detail) in enumerate(samples, start=1)
    )
    return EvalReport(name="s", tries=1, variants=(), samples=tuple(made))


def test_each_reason_is_told_with_its_count():
    found = undone(
        report(
            ("not_run", "", NO_MONEY),
            ("failed", "setup_failed", "pip: no package 'a'"),
            ("not_run", "", NO_TIME),
            ("failed", "model_failed", "the provider is away for 3 s"),
            ("not_run", "", NO_TIME),
            ("failed", "model_failed", "the provider is away for 4 s"),
            ("accepted", "", ""),
        )
    )

    assert [(error.code, error.message) for error in found] == [
        ("deadline", "2 of 7 samples were not run: the suite's time was over"),
        ("budget", "1 of 7 samples were not run: the suite's budget has no room for it"),
        ("partial", "2 of 7 samples failed: the provider is away for 3 s"),
        ("partial", "1 of 7 samples failed: pip: no package 'a'"),
    ]


def test_of_many_reasons_the_commonest_are_told():
    found = undone(report(*(("failed", "internal", f"why {chr(97 + at)}") for at in range(9))))

    assert len(found) == 6 and found[-1].message == "4 of 9 samples failed for other reasons"
    assert {error.code for error in found} == {"internal"}  # all of one kind, and nothing else: no part was done


PRICE = ModelPrice(input_microusd=1, output_microusd=2)
BUILD = AgentCard(name="build", mode="primary", pool="build")
OWN = BUILD.model_copy(update={"model": "openai/other"})


def worker(price: ModelPrice | None = None, model: str = "openai/own", agent: AgentCard = BUILD) -> WorkerCard:
    return WorkerCard(worker="w", pool="build", slots=1, agents=(agent,), model=model, price=price)


@pytest.mark.parametrize("model", ["", "openai/own"], ids=["nobody's", "named"])
def test_a_suite_whose_models_price_no_worker_knows_is_refused_before_anything_is_sent(model):
    with pytest.raises(BadInput, match="the price of openai/own is not known, and no sample of 'v' could be paid"):
        require_prices([Variant(name="v", model=model)], [worker(), worker()], least_cap_microusd=10**6)


@pytest.mark.parametrize(
    "workers",
    [[worker(PRICE)], [worker(), worker(PRICE)], [worker(model="")], [worker(agent=OWN)], []],
    ids=["known", "known to one", "no model", "the agent has its own", "nobody is there"],
)
def test_a_price_that_may_be_known_is_not_missed(workers):
    require_prices([Variant(name="v")], workers, least_cap_microusd=10**6)


def test_a_suite_whose_samples_may_spend_less_than_a_call_costs_is_refused_before_anything_is_sent():
    dear = worker(ModelPrice(input_microusd=10_000_000, output_microusd=40_000_000))
    variants = [Variant(name="v")]

    require_prices(variants, [dear], least_cap_microusd=60_000)
    with pytest.raises(BadInput, match=r"a sample of 'v' may spend \$0\.0100, which pays for no call") as refused:
        require_prices(variants, [dear], least_cap_microusd=10_000)
    assert "limits.sample_budget_usd" in refused.value.hint
    require_prices(variants, [dear, worker(PRICE)], least_cap_microusd=10_000)
