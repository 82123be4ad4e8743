"""SARIF 2.1.0: what was not done, at the files where it was to be done, and what the gate has against the rest, for a
forge's code scanning page."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from ...gating.text import proof_text
from ..report import BatchReport
from .findings import Finding, findings

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: BatchReport) -> str:
    """A result for each finding; none is more than a warning."""
    results = [_result(one) for one in findings(report)]
    rules = [{"id": code} for code in dict.fromkeys(result["ruleId"] for result in results)]
    tool = {"driver": {"name": "Muster", "version": version("muster"), "rules": rules}}
    proofs = {one.name: proof_text(verified=one.verified, reason=one.reason) for one in report.repositories}
    run = {"tool": tool, "results": results, "properties": {"proof": proofs}}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(one: Finding) -> dict[str, Any]:
    """At the file that it is about, else at the repository."""
    where = {"uri": quote(one.file or "."), "uriBaseId": one.repository}
    return {
        "ruleId": one.rule,
        "level": "warning",
        "message": {"text": one.message},
        "locations": [{"physicalLocation": {"artifactLocation": where}}],
        "properties": dict(one.more),
    }
