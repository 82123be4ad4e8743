"""What people should look at after a batch, each at its file: the one list that CI systems are told in their own words.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..causes import causes
from ..report import BatchReport
from .gate_part import faults, gate_lines, is_rejected


@dataclass(frozen=True, slots=True)
class Finding:
    """`file`: in its repository; empty where it is about no file. `more`: what programs may read beside the words."""

    rule: str
    repository: str
    file: str
    message: str
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


def findings(report: BatchReport) -> Iterator[Finding]:
    """What gates object to first: it concerns the whole change."""
    for one in report.repositories:
        if is_rejected(one):
            seen = {"gate": [f"{label}: {said}" for label, said in gate_lines(one)]}
            yield from (Finding(rule, one.name, file, said, seen) for rule, said, file in faults(one))
        elif not one.verified and one.hint:  # stuck before there was anything to judge
            yield Finding("repository", one.name, "", f"{one.reason}; {one.hint}")
    for cause in causes(report):
        for name, shard in cause.shards:
            said = f"{shard.said} (muster task logs {shard.task_id})"
            more = {"task_id": shard.task_id, "outcome": shard.outcome}
            yield Finding(cause.code, name, shard.key, said, more)
