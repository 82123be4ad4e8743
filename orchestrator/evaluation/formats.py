"""A suite's report for other programs, and for the page of a CI job. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ..batch.formats.junit import NOT_XML
from ..batch.formats.markdown import as_text
from .report import EvalReport
from .table import best_line, comparison_line, cost_line, rows_of

MAX_LISTED = 50  # samples in Markdown: the JSON has them all


def as_json(report: EvalReport) -> str:
    return report.model_dump_json(indent=1) + "\n"


def markdown(report: EvalReport) -> str:
    """What people and models wrote is escaped: it shows as it is, and links to nothing."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: EvalReport) -> Iterator[str]:
    head, rows = rows_of(report)
    yield from (f"### {as_text(report.name)}: {len(report.variants)} variants, {len(report.samples)} samples", "")
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    yield from (f"| {' | '.join(map(as_text, row))} |" for row in rows)
    if report.comparisons:
        yield ""
        yield from (f"- {as_text(comparison_line(one))}" for one in report.comparisons)
    yield from ("", f"Cost: {cost_line(report)}.")
    if report.unmet:
        yield ""
        yield from (f"- **required**: {as_text(unmet)}" for unmet in report.unmet)
    if report.notes:
        yield ""
        yield from (f"- {as_text(note)}" for note in report.notes)
    yield from _best(report)
    yield from _samples(report)


def _best(report: EvalReport) -> Iterator[str]:
    if report.best:
        yield from ("", "**Best change of each case**", "")
    yield from (f"- {as_text(best_line(one))} (`muster task apply {one.task_id}`)" for one in report.best[:MAX_LISTED])
    if (more := len(report.best) - MAX_LISTED) > 0:
        yield f"- … {more} more"


def _samples(report: EvalReport) -> Iterator[str]:
    others = [sample for sample in report.samples if sample.outcome != "accepted"]
    if others:
        yield from ("", "**Not accepted**", "")
    for one in others[:MAX_LISTED]:
        task = f" (`muster task logs {one.task_id}`)" if one.task_id else ""
        yield f"- {as_text(f'{one.case}, {one.variant}, try {one.number}: {one.outcome}; {one.detail}')}{task}"
    if (more := len(others) - MAX_LISTED) > 0:
        yield f"- … {more} more"


def junit(report: EvalReport) -> str:
    """A suite for each variant, a case for each sample; what says nothing of its variant is an error, not a failure."""
    suites = Element("testsuites", name=_xml(report.name))
    for variant in report.variants:
        suite = SubElement(suites, "testsuite", name=_xml(variant.name))
        for sample in report.samples:
            if sample.variant == variant.name:
                name, time = f"{sample.case}#{sample.number}", f"{sample.wall_ms / 1000:.3f}"
                case = SubElement(suite, "testcase", classname=_xml(variant.name), name=_xml(name), time=time)
                kind = TAGS.get(sample.outcome, "failure")
                if kind:
                    found = SubElement(case, kind, message=_xml(sample.detail or sample.outcome))
                    found.text = f"muster task logs {sample.task_id}" if sample.task_id else ""
        suite.set("tests", str(len(suite)))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


TAGS = {"accepted": "", "failed": "error", "not_run": "skipped"}
FORMATS: Mapping[str, Callable[[EvalReport], str]] = {"markdown": markdown, "json": as_json, "junit": junit}


def _xml(said: str) -> str:
    return NOT_XML.sub("�", said)
