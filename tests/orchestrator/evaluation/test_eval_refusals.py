"""Which samples are no longer begun, since those before them were refused."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from orchestrator.evaluation.file import parse_suite
from orchestrator.evaluation.matrix import Sample
from orchestrator.evaluation.outcomes import SampleReport
from orchestrator.evaluation.refusals import Refusals
from orchestrator.evaluation.spec import Variant
from transport.money import Ledger
from workers.agent.session import Session
from workers.agent_task.task import require_price
from workers.errors import BadInput

CASE = '[[cases]]\nname = "{}"\nprompt = "x"\n'
SUITE = 'name = "s"\nrepository = { folder = "p" }\ngate = { commands = ["t"] }\n'
SPEC = parse_suite(SUITE + "".join(map(CASE.format, "abcd")))
MODEL = Variant(name="v", model="m")
NO_PRICE = (ErrorCode.BAD_INPUT, "the price of the model 'm' is not known, and the task has a cost cap")
NO_KEY = (ErrorCode.MODEL_AUTH, "the key is not accepted")


def sample(case: int) -> Sample:
    return Sample(SPEC.cases[case], MODEL, 1)


def ended(case: int, code: ErrorCode | None = None, detail: str = "", **fields: object) -> SampleReport:
    told = {"outcome": "failed", "code": code, "detail": detail} if code else {"outcome": "accepted"}
    return SampleReport(case=SPEC.cases[case].name, variant="v", number=1, **{**told, **fields})


def noted(*reports: SampleReport, found: bool = False) -> Refusals:
    refusals = Refusals()
    for case, report in enumerate(reports):
        refusals.note(sample(case), report, found=found)
    return refusals


@pytest.mark.parametrize("why", [NO_PRICE, NO_KEY], ids=["no price", "no key"])
def test_what_two_cases_were_refused_for_keeps_the_others_back(why):
    refusals = noted(ended(0, *why), ended(1, *why))

    assert refusals.of(sample(2), SPEC) == ended(0, *why)
    assert refusals.of(Sample(SPEC.cases[2], Variant(name="w", model="other"), 1), SPEC) is None


def test_a_program_that_was_not_ready_in_time_may_be_the_next_time():
    slow = (ErrorCode.BAD_INPUT, "the agent's program was not ready within 120 s")

    assert noted(ended(0, *slow), ended(1, *slow)).of(sample(2), SPEC) is None


def test_a_model_that_has_answered_is_asked_on_when_it_refuses_some():
    assert noted(ended(0), ended(1, *NO_KEY), ended(2, *NO_KEY)).of(sample(3), SPEC) is None
    assert noted(ended(0, *NO_KEY), ended(1, *NO_KEY), ended(2)).of(sample(3), SPEC) is None


def test_what_an_earlier_suite_was_answered_says_nothing_of_today():
    refusals = noted(ended(0, reused=True), ended(1, *NO_KEY), ended(2, *NO_KEY))

    assert refusals.of(sample(3), SPEC) == ended(1, *NO_KEY)


def test_what_this_attempt_has_not_begun_keeps_nobody_back():
    assert noted(ended(0, *NO_KEY), ended(1, *NO_KEY), found=True).of(sample(2), SPEC) is None


def test_a_missing_price_is_told_in_the_workers_words():
    session = Session(agent="build", model="m", budget=Budget(max_cost_microusd=1))
    with pytest.raises(BadInput) as refused:
        require_price(None, session, Ledger(spent_microusd=0, cap_microusd=None))

    assert (refused.value.code, refused.value.message) == NO_PRICE
