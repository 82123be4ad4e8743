"""A suite's report as lines that people read: in the terminal, and as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..units import dollars, duration
from ..words import counted
from .report import Chosen, Comparison, EvalReport, VariantReport

BEST_OF_N = "pass@n"
HEAD = (
    "variant", "accepted", "rejected", "budget", "deadline", "failed", "not run", "pass@1", "95 %", BEST_OF_N,
    "per accepted", "cost", "tokens", "turns", "median", "p95",
)  # fmt: skip
IF_ANY = ("budget", "deadline", "failed", "not run")
NONE = "–"


def rows_of(report: EvalReport) -> tuple[list[str], list[list[str]]]:
    """The head, and a row for each variant; outcomes that no sample had are left out, and pass@n of single tries."""
    rows = [_row(one, report.tries) for one in report.variants]
    kept = [at for at, name in enumerate(HEAD) if name not in IF_ANY or any(row[at] != "0" for row in rows)]
    if report.tries == 1:
        kept.remove(HEAD.index(BEST_OF_N))
    head = [f"pass@{report.tries}" if HEAD[at] == BEST_OF_N else HEAD[at] for at in kept]
    return head, [[row[at] for at in kept] for row in rows]


def _row(one: VariantReport, tries: int) -> list[str]:
    counts = [
        str(one.counts.get(key, 0)) for key in ("accepted", "rejected", "budget", "deadline", "failed", "not_run")
    ]
    best = one.pass_at.get(tries)
    return [
        one.name,
        *counts,
        percent(one.pass_at.get(1)),
        f"{one.low:.0%}–{one.high:.0%}" if one.method else NONE,
        percent(best),
        NONE if one.cost_per_accepted_microusd is None else dollars(one.cost_per_accepted_microusd),
        dollars(one.cost_microusd),
        f"{one.input_tokens + one.output_tokens:,}",
        str(one.turns),
        NONE if one.wall_ms_median is None else duration(one.wall_ms_median),
        NONE if one.wall_ms_p95 is None else duration(one.wall_ms_p95),
    ]


def percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"


def comparison_line(one: Comparison) -> str:
    """
    >>> comparison_line(Comparison(variant="b", baseline="a", cases=8, difference=-0.75, low=-1.0, high=-0.375,
    ...     better=0, worse=6, p_value=0.03125, verdict="worse"))
    'b is worse than a: pass@1 -75 points (95 %: -100 to -38), better in 0, worse in 6 of 8 cases, p = 0.031'
    >>> comparison_line(Comparison(variant="b", baseline="a", cases=0, difference=0.0, low=-1.0, high=1.0,
    ...     better=0, worse=0, p_value=1.0, verdict="unclear"))
    'b is not compared with a: no case was judged for both'
    """
    if not one.cases:
        return f"{one.variant} is not compared with {one.baseline}: no case was judged for both"
    word = "not clearly different from" if one.verdict == "unclear" else f"{one.verdict} than"
    points = f"{one.difference * 100:+.0f} points (95 %: {one.low * 100:+.0f} to {one.high * 100:+.0f})"
    cases = f"better in {one.better}, worse in {one.worse} of {one.cases} cases"
    return f"{one.variant} is {word} {one.baseline}: pass@1 {points}, {cases}, p = {one.p_value:.2g}"


def best_line(one: Chosen) -> str:
    """
    >>> best_line(Chosen(case="slug", variant="a", task_id="t", number=2, files=1, lines=3, of=5))
    'slug: try 2 of 5 by a, 1 file, 3 lines'
    """
    size = f"{counted(one.files, 'file')}, {counted(one.lines, 'line')}"
    return f"{one.case}: try {one.number} of {one.of} by {one.variant}, {size}"


def cost_line(report: EvalReport) -> str:
    cap = "" if report.cap_microusd is None else f" of {dollars(report.cap_microusd)}"
    reused = f"; {report.reused} sample(s) as before, paid then" if report.reused else ""
    return f"{dollars(report.paid_microusd)}{cap}{reused}"


def text_of(report: EvalReport) -> str:
    """A table whose columns meet, for a terminal; then what differs."""
    head, rows = rows_of(report)
    lines = [*_aligned([head, *rows]), *(["", *map(comparison_line, report.comparisons)] if report.comparisons else [])]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()
