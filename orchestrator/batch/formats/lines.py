"""JSON Lines: one for each shard, with its repository, then one for each repository."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..failures import class_of
from ..report import BatchReport


def json_lines(report: BatchReport) -> str:
    return "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in _values(report))


def _values(report: BatchReport) -> Iterator[dict[str, Any]]:
    for repository in report.repositories:
        for shard in repository.shards:
            failed = {"class": class_of(shard.code)} if shard.outcome in ("failed", "set_aside") else {}
            yield {"kind": "shard", "repository": repository.name, **shard.model_dump(mode="json"), **failed}
        yield {"kind": "repository", **repository.model_dump(mode="json", exclude={"shards", "patch"})}
