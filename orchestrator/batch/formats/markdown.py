"""Markdown, for the summary page of a CI job and for comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...gating.text import excused_text
from ...publication.body import code_block
from ...units import dollars
from ..causes import causes
from ..merge_advice import by_hand
from ..report import BatchReport, RepositoryReport, ShardReport
from .gate_part import gate_lines, output_of

MAX_SHARDS = 50  # of a cause: a summary page holds 1 MiB, a reader less
MAX_GATE_CHARS = 4_000  # of what the gate's commands printed
MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def markdown(report: BatchReport) -> str:
    """What repositories and models said is escaped: it shows as it is, and links to nothing."""
    return "\n".join([*_head(report), "", *_table(report), *_gates(report), *_causes(report), *_by_hand(report)]) + "\n"


def _head(report: BatchReport) -> Iterator[str]:
    yield f"### {_text(report.name)}: {_word(report)}"
    if (accepted := report.cost_per_accepted_microusd) is not None:
        yield ""
        yield f"{dollars(report.cost_microusd)} in all, {dollars(accepted)} for each shard that landed."


def _word(report: BatchReport) -> str:
    if not report.verified:
        return "not verified"
    undone = sum(one.count("collision", "failed", "set_aside") for one in report.repositories)
    excused = f": {excused_text(report.excused)}" if report.excused else ""
    return f"verified what landed, {undone} not done{excused}" if undone else f"verified{excused}"


def _table(report: BatchReport) -> Iterator[str]:
    yield "| repository | | merged | unchanged | in collision | not done | tests before | after | cost |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for one in report.repositories:
        counts = [one.count("applied"), one.count("empty"), one.count("collision"), one.count("failed", "set_aside")]
        tests = ["" if gate is None or gate.tests is None else gate.tests for gate in (one.before, one.after)]
        cells = [_text(one.name), _verdict(one), *counts, *tests, dollars(one.cost_microusd)]
        yield f"| {' | '.join(map(str, cells))} |"


def _verdict(one: RepositoryReport) -> str:
    if one.verified:
        return f"verified: {_text(one.reason)}" if one.reason else "verified"
    return f"not verified: {_text(one.reason)}" if one.reason else "not verified"


def _gates(report: BatchReport) -> Iterator[str]:
    for one in report.repositories:
        if lines := gate_lines(one):
            yield from ("", f"**Gate of {_text(one.name)}**", "")
            yield from (f"- {_text(label)}: {_text(said)}" for label, said in lines)
        if printed := output_of(one).strip():
            yield from ("", code_block(printed, MAX_GATE_CHARS))


def _causes(report: BatchReport) -> Iterator[str]:
    for cause in causes(report):
        yield ""
        yield f"**{len(cause.shards)} × {cause.code}**: {_text(cause.detail)}"
        yield ""
        yield f"{cause.kind or 'collision'}; {_text(cause.next)}"
        yield ""
        for name, shard in cause.shards[:MAX_SHARDS]:
            yield f"- {_text(name)}: {_text(shard.key)} ({_task(shard)})"
        if (more := len(cause.shards) - MAX_SHARDS) > 0:
            yield f"- … {more} more"


def _by_hand(report: BatchReport) -> Iterator[str]:
    found = [each for one in report.repositories for each in by_hand(one, report.branch)]
    if found:
        yield from ("", "**To go on by hand**, in the repository, one after the other:", "")
    yield from (f"- {_text(why)}: `{command}`" for why, command in found)


def _task(shard: ShardReport) -> str:
    return f"`muster task logs {shard.task_id}`"


def _text(said: str) -> str:
    return MARKUP.sub(r"\\\1", " ".join(said.split()))
