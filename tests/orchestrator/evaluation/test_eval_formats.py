"""Reports: what models and people wrote shows as it is, and breaks no form."""

from __future__ import annotations

import json
from xml.etree.ElementTree import fromstring

import pytest

from envelope.budget import Usage
from orchestrator.evaluation.file import parse_suite
from orchestrator.evaluation.formats import FORMATS
from orchestrator.evaluation.matrix import variants_of
from orchestrator.evaluation.outcomes import SampleReport
from orchestrator.evaluation.report import EvalReport, concluded
from orchestrator.evaluation.table import text_of

SUITE = """
name = "words"
samples = 2
repository = {{ folder = "p" }}
gate = {{ commands = ["t"] }}
matrix = {{ model = ["a", "b"] }}
cases = [{}]
"""
HOSTILE = "</td><script>alert(1)</script> | [x](javascript:1)\x1b[2J\x00 \u202egnp"


def report_of(*outcomes: tuple[str, str, int, str], cases: int = 2) -> EvalReport:
    text = ", ".join(f'{{ name = "c{number}", prompt = "p" }}' for number in range(cases))
    spec = parse_suite(SUITE.format(text))
    samples = [
        SampleReport.model_validate(
            {
                "case": case, "variant": variant, "number": number, "outcome": outcome, "task_id": "t",
                "detail": HOSTILE if outcome != "accepted" else "", "usage": Usage(input_tokens=1_000),
                "cost_microusd": 200, "wall_ms": 1_500,
            }
        )
        for case, variant, number, outcome in outcomes
    ]  # fmt: skip
    return concluded(spec, variants_of(spec), samples, paid=600, cap=1_000_000)


def tried(variant: str, case: str, *outcomes: str):
    return [(case, variant, number, outcome) for number, outcome in enumerate(outcomes, 1)]


@pytest.fixture
def report() -> EvalReport:
    return report_of(
        *tried("a", "c0", "accepted", "accepted"),
        *tried("a", "c1", "accepted", "rejected"),
        *tried("b", "c0", "rejected", "budget"),
        *tried("b", "c1", "failed", "not_run"),
    )


def test_figures_are_of_what_was_judged(report):
    a, b = report.variants

    assert a.pass_at == pytest.approx({1: 0.75, 2: 1.0})
    assert (a.method, a.cost_per_accepted_microusd, a.wall_ms_median) == ("bootstrap", 266, 1_500)
    assert (b.cases, b.pass_at, b.cost_per_accepted_microusd) == (1, {1: 0.0, 2: 0.0}, None)
    assert b.counts == {"rejected": 1, "budget": 1, "failed": 1, "not_run": 1}
    [compared] = report.comparisons
    assert (compared.cases, compared.difference, compared.verdict) == (1, -1.0, "unclear")


def test_the_table_says_nothing_of_outcomes_that_nobody_had(report):
    head = text_of(report).splitlines()[0].split("  ")
    assert "budget" in text_of(report) and "deadline" not in [cell.strip() for cell in head]


def test_what_was_tried_too_rarely_has_no_pass_at_k():
    found = report_of(*tried("a", "c0", "accepted", "accepted"), *tried("a", "c1", "accepted", "failed"))
    assert found.variants[0].pass_at == {1: 1.0}


def test_markdown_escapes_what_others_said(report):
    text = FORMATS["markdown"](report)

    assert "<script>" not in text and "](javascript" not in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_junit_is_xml_whatever_was_said(report):
    suites = fromstring(FORMATS["junit"](report))
    counted = [[one.get(name) for name in ("tests", "failures", "errors", "skipped")] for one in suites]
    assert counted == [["4", "1", "0", "0"], ["4", "2", "1", "1"]]


def test_json_is_the_whole_report(report):
    assert EvalReport.model_validate(json.loads(FORMATS["json"](report))) == report
