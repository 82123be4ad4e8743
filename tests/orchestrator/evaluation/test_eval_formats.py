"""Reports: what models and people wrote shows as it is, and breaks no form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree.ElementTree import fromstring

import pytest
from junit_schema import junit_faults

from envelope.budget import Usage
from envelope.codec import MAX_MESSAGE_BYTES, encode
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import Attachment, Output, TaskResult
from orchestrator.evaluation.drive import MAX_CASSETTES
from orchestrator.evaluation.file import parse_suite
from orchestrator.evaluation.formats import FORMATS
from orchestrator.evaluation.matrix import samples_of, variants_of
from orchestrator.evaluation.outcomes import SampleReport, not_run
from orchestrator.evaluation.report import EvalReport, concluded
from orchestrator.evaluation.spec import MAX_SAMPLES, MAX_VARIANTS
from orchestrator.evaluation.table import best_line, text_of

SUITE = """
name = "words"
samples = 2
repository = {{ folder = "p" }}
gate = {{ commands = ["t"] }}
matrix = {{ model = ["a", "b"] }}
cases = [{}]
"""
BOTH = (("a", "accepted"), ("b", "rejected"))
BLOB = "sha256:" + "0" * 64
HOSTILE = "</td><script>alert(1)</script> | [x](javascript:1)\x1b[2J\x00 \u202egnp"


def report_of(*outcomes: tuple[str, str, int, str], cases: int = 2, lines: Sequence[int] = ()) -> EvalReport:
    """`lines`: how many each sample's change has; 1 where none are given."""
    text = ", ".join(f'{{ name = "c{number}", prompt = "p" }}' for number in range(cases))
    spec = parse_suite(SUITE.format(text))
    samples = [
        SampleReport.model_validate(
            {
                "case": case, "variant": variant, "number": number, "outcome": outcome, "task_id": f"t{at}",
                "detail": HOSTILE if outcome != "accepted" else "", "usage": Usage(input_tokens=1_000),
                "cost_microusd": 200, "wall_ms": 1_500, "files": 1, "lines": lines[at] if lines else 1,
            }
        )
        for at, (case, variant, number, outcome) in enumerate(outcomes)
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


def test_cases_that_all_came_out_alike_seem_certain_to_nobody():
    outcomes = [tried(variant, case, word, word) for case in ("c0", "c1") for variant, word in BOTH]
    report = report_of(*(each for case in outcomes for each in case))

    a, b = report.variants
    assert (a.method, b.method) == ("wilson", "wilson")
    assert (a.low, a.high) == pytest.approx((0.3424, 1.0), abs=5e-5)  # of two cases, though of four tries
    assert (b.low, b.high) == pytest.approx((0.0, 0.6576), abs=5e-5)
    [compared] = report.comparisons
    assert (compared.low, compared.high, compared.verdict) == (-1.0, pytest.approx(0.193, abs=5e-4), "unclear")


def test_the_best_change_of_a_case_is_the_smallest_of_all_that_were_accepted():
    tries = [
        *tried("a", "c0", "accepted", "accepted", "rejected"),
        *tried("b", "c0", "accepted", "failed"),
        *tried("b", "c1", "rejected", "rejected"),
    ]
    report = report_of(*tries, lines=(9, 7, 1, 8, 1, 1, 1))

    assert [(one.variant, one.number, one.lines, one.of) for one in report.chosen] == [("a", 2, 7, 3), ("b", 1, 8, 1)]
    [best] = report.best
    assert (best.task_id, best_line(best)) == ("t1", "c0: try 2 of 3 by a, 1 file, 7 lines")
    assert r"c0: try 2 of 3 by a, 1 file, 7 lines (`muster task apply t1`)" in FORMATS["markdown"](report)


def test_the_largest_suite_has_a_result_that_travels():
    text = ", ".join(f'{{ name = "c{number}", prompt = "p" }}' for number in range(50))
    models = ", ".join(f'"m{number}"' for number in range(MAX_VARIANTS))
    spec = parse_suite(SUITE.replace("samples = 2", "").format(text).replace('"a", "b"', models))
    samples = samples_of(spec, variants_of(spec))
    reports = [not_run(sample, "予算" * 150).model_copy(update={"outcome": "rejected"}) for sample in samples]
    report = concluded(spec, variants_of(spec), reports, paid=0, cap=None)
    result = TaskResult(
        trace_id="0" * 32, task_id=new_task_id(), attempt=1, status=State.COMPLETED,
        output=Output(text=text_of(report), structured=report.abridged().model_dump(mode="json")),
        attachments=tuple(Attachment(blob=BLOB, name="x" * 300, media_type="m") for _ in range(MAX_CASSETTES)),
    )  # fmt: skip

    assert len(samples) == MAX_SAMPLES
    assert len(encode(result)) < MAX_MESSAGE_BYTES


def test_markdown_escapes_what_others_said(report):
    text = FORMATS["markdown"](report)

    assert "<script>" not in text and "](javascript" not in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_junit_is_xml_whatever_was_said(report):
    suites = fromstring(FORMATS["junit"](report))
    assert list(junit_faults(FORMATS["junit"](report))) == []
    counted = [[one.get(name) for name in ("tests", "failures", "errors", "skipped")] for one in suites]
    assert counted == [["4", "1", "0", "0"], ["4", "2", "1", "1"]]


def test_json_is_the_whole_report(report):
    assert EvalReport.model_validate(json.loads(FORMATS["json"](report))) == report
