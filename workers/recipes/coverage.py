"""How much of the code the tests reach, as the usual tools print it. Pure; nothing when nothing was recognised."""

from __future__ import annotations

import re

from .junit import told_name

MAX_TOTALS = 1000
# Totals of coverage.py (with pytest-cov), of go test -cover, and of istanbul (jest, vitest, nyc, c8). go tells whose.
TOTALS = (
    r"^TOTAL\b.*?()(\d{1,3}(?:\.\d{1,9})?)%\s*$",
    r"^(?:ok[ \t]+(\S+)[ \t].*)?coverage: (\d{1,3}(?:\.\d{1,9})?)% of statements",
    r"^All files +\| +()(\d{1,3}(?:\.\d{1,9})?) \|",
)
# What they say where there is less than they ask for. They end then as if a test had failed.
_FLOORS = re.compile(
    r"FAIL Required test coverage|Coverage failure: total of|overage threshold for .{1,80} not met"
    r"|overage for .{1,80} does not meet"
)


def misses_floor(output: str) -> bool:
    """
    >>> misses_floor("FAIL Required test coverage of 90% not reached. Total coverage: 80.00%")
    True
    """
    return _FLOORS.search(output) is not None


def coverage_totals(output: str) -> dict[str, float]:
    """Each total by its package, or by its place among those without one.

    >>> coverage_totals("TOTAL      120     30    75%")
    {'total 1': 75.0}
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    told = [match for pattern in TOTALS for match in re.finditer(pattern, plain, re.MULTILINE)]
    totals: dict[str, float] = {}
    nameless = 0
    for package, percent in (match.groups() for match in told if float(match[2]) <= 100):
        nameless += not package
        name = told_name(package) if package else f"total {nameless}"
        name = name if name in totals or len(totals) < MAX_TOTALS else "total of others"
        totals[name] = min(float(percent), totals.get(name, 100))
    return totals
