"""SARIF 2.1.0: what was not done, at the files where it was to be done, for a forge's code scanning page."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from ..causes import causes
from ..report import BatchReport, ShardReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: BatchReport) -> str:
    """A result for each shard that is not done, by its failure's code as the rule; none is more than a warning."""
    found = causes(report)
    rules = [{"id": code} for code in dict.fromkeys(cause.code for cause in found)]
    results = [_result(cause.code, name, shard) for cause in found for name, shard in cause.shards]
    tool = {"driver": {"name": "Muster", "version": version("muster"), "rules": rules}}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}, indent=1)


def _result(code: str, repository: str, shard: ShardReport) -> dict[str, Any]:
    place = {"uri": quote(shard.key), "uriBaseId": repository}
    return {
        "ruleId": code,
        "level": "warning",
        "message": {"text": shard.detail or shard.outcome},
        "locations": [{"physicalLocation": {"artifactLocation": place}}],
        "properties": {"task_id": shard.task_id, "outcome": shard.outcome},
    }
