"""JUnit XML: a suite for each repository, a case for each shard, and one for its gate."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ...gating.text import proof_text
from ..report import BatchReport, RepositoryReport, ShardReport
from .gate_part import gate_lines, output_of

# What XML 1.0 cannot hold, escaped or not.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: BatchReport) -> str:
    """An unchanged shard passes; one in collision, set aside or failed is a failure with its code and task."""
    suites = Element("testsuites", name=_text(report.name))
    for repository in report.repositories:
        _suite(suites, repository)
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _suite(suites: Element, repository: RepositoryReport) -> None:
    suite = SubElement(suites, "testsuite", name=_text(repository.name))
    for shard in repository.shards:
        _case(suite, repository.name, shard)
    if repository.after is not None or repository.reason:
        _gate(suite, repository)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")  # which the schema of Jenkins and others wants said


def _gate(suite: Element, repository: RepositoryReport) -> None:
    """What the gate saw stands in the failure where there is one, else in the case's output."""
    gate = SubElement(suite, "testcase", classname=_text(repository.name), name="gate")
    seen = "\n".join(f"{label}: {said}" for label, said in gate_lines(repository))
    if repository.verified:
        proof = proof_text(verified=True, reason=repository.reason)
        SubElement(gate, "system-out").text = _text(f"{proof}\n{seen}")
        return
    reason, hint = repository.reason or "not verified", repository.hint
    failure = SubElement(gate, "failure", message=_text(f"{reason}; {hint}" if hint else reason), type="gate")
    failure.text = _text("\n".join(filter(None, (seen, output_of(repository)))))


def _case(suite: Element, repository: str, shard: ShardReport) -> None:
    case = SubElement(suite, "testcase", classname=_text(repository), name=_text(shard.key))
    if shard.outcome not in ("applied", "empty"):
        kind = shard.code or shard.outcome
        failure = SubElement(case, "failure", message=_text(shard.said), type=kind)
        failure.text = f"muster task logs {shard.task_id}"


def _text(said: str) -> str:
    return NOT_XML.sub("�", said)
