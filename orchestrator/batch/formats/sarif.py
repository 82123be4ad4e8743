"""SARIF 2.1.0: what was not done, at the files where it was to be done, and what the gate has against the rest, for a
forge's code scanning page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from ..causes import causes
from ..report import BatchReport, RepositoryReport, ShardReport
from .gate_part import faults, gate_lines, is_rejected

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: BatchReport) -> str:
    """A result for each shard that is not done, by its failure's code as the rule, and for each objection of a gate;
    none is more than a warning."""
    found = causes(report)
    results = [_of_shard(cause.code, name, shard) for cause in found for name, shard in cause.shards]
    results += [each for one in report.repositories if is_rejected(one) for each in _of_gate(one)]
    rules = [{"id": code} for code in dict.fromkeys(result["ruleId"] for result in results)]
    tool = {"driver": {"name": "Muster", "version": version("muster"), "rules": rules}}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}, indent=1)


def _of_shard(code: str, repository: str, shard: ShardReport) -> dict[str, Any]:
    more = {"task_id": shard.task_id, "outcome": shard.outcome}
    return _result(code, repository, shard.key, shard.detail or shard.outcome, more)


def _of_gate(one: RepositoryReport) -> Iterator[dict[str, Any]]:
    """At the file that it is about, else at the repository."""
    seen = {"gate": [f"{label}: {said}" for label, said in gate_lines(one)]}
    yield from (_result(rule, one.name, file or ".", said, seen) for rule, said, file in faults(one))


def _result(code: str, repository: str, place: str, said: str, more: dict[str, Any]) -> dict[str, Any]:
    where = {"uri": quote(place), "uriBaseId": repository}
    return {
        "ruleId": code,
        "level": "warning",
        "message": {"text": said},
        "locations": [{"physicalLocation": {"artifactLocation": where}}],
        "properties": more,
    }
