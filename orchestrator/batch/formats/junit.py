"""JUnit XML: a suite for each repository, a case for each shard, and one for its gate."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ..report import BatchReport, RepositoryReport, ShardReport

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
        gate = SubElement(suite, "testcase", classname=_text(repository.name), name="gate")
        if not repository.verified:
            SubElement(gate, "failure", message=_text(repository.reason or "not verified"), type="gate")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))


def _case(suite: Element, repository: str, shard: ShardReport) -> None:
    case = SubElement(suite, "testcase", classname=_text(repository), name=_text(shard.key))
    if shard.outcome not in ("applied", "empty"):
        kind = shard.code or shard.outcome
        failure = SubElement(case, "failure", message=_text(shard.detail or shard.outcome), type=kind)
        failure.text = f"muster task logs {shard.task_id}"


def _text(said: str) -> str:
    return NOT_XML.sub("�", said)
