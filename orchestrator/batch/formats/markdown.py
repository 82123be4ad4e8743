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
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")
# Forges make links of these wherever they stand in a text, escaped or not; a comment within takes them apart.
_LINKS = re.compile(r"(@|#|:(?=//)|\bwww(?=\.))", re.IGNORECASE)


def markdown(report: BatchReport) -> str:
    """What repositories and models said is escaped: it shows as it is, and links to nothing."""
    return "\n".join([*_head(report), "", *_table(report), *_gates(report), *_causes(report), *_by_hand(report)]) + "\n"


def _head(report: BatchReport) -> Iterator[str]:
    yield f"### {as_text(report.name)}: {_word(report)}"
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
        cells = [as_text(one.name), _verdict(one), *counts, *tests, dollars(one.cost_microusd)]
        yield f"| {' | '.join(map(str, cells))} |"


def _verdict(one: RepositoryReport) -> str:
    if one.verified:
        return f"verified: {as_text(one.reason)}" if one.reason else "verified"
    return f"not verified: {as_text(one.reason)}" if one.reason else "not verified"


def _gates(report: BatchReport) -> Iterator[str]:
    for one in report.repositories:
        if lines := gate_lines(one):
            yield from ("", f"**Gate of {as_text(one.name)}**", "")
            yield from (f"- {as_text(label)}: {as_text(said)}" for label, said in lines)
        if printed := output_of(one).strip():
            yield from ("", code_block(printed, MAX_GATE_CHARS))


def _causes(report: BatchReport) -> Iterator[str]:
    for cause in causes(report):
        yield ""
        yield f"**{len(cause.shards)} × {cause.code}**: {as_text(cause.detail)}"
        yield ""
        yield f"{cause.kind or 'collision'}; {as_text(cause.next)}"
        yield ""
        for name, shard in cause.shards[:MAX_SHARDS]:
            yield f"- {as_text(name)}: {as_text(shard.key)} ({_task(shard)})"
        if (more := len(cause.shards) - MAX_SHARDS) > 0:
            yield f"- … {more} more"


def _by_hand(report: BatchReport) -> Iterator[str]:
    found = [each for one in report.repositories for each in by_hand(one, report.branch)]
    if found:
        yield from ("", "**To go on by hand**, in the repository, one after the other:", "")
    yield from (f"- {as_text(why)}: `{command}`" for why, command in found)


def _task(shard: ShardReport) -> str:
    return f"`muster task logs {shard.task_id}`"


def as_text(said: str) -> str:
    """One line that shows as it is: no markup, no link, no mention.

    >>> as_text("*see* https://x.example, @all")
    '\\\\*see\\\\* https:<!-- -->//x.example, @<!-- -->all'
    """
    parts = _LINKS.split(" ".join(said.split()))  # every other one is what makes a link
    escaped = (_MARKUP.sub(r"\\\1", part) for part in parts)
    return "".join(f"{part}<!-- -->" if number % 2 else part for number, part in enumerate(escaped))
