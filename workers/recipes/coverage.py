"""How much of the code the tests reach, as the usual tools print it. Pure; None when nothing was recognised."""

from __future__ import annotations

import re

# Totals of coverage.py (with pytest-cov), of go test -cover, and of istanbul (jest, vitest, nyc, c8).
TOTALS = (
    r"^TOTAL\b.*?(\d{1,3}(?:\.\d{1,9})?)%\s*$",
    r"^(?:ok\s.*)?coverage: (\d{1,3}(?:\.\d{1,9})?)% of statements",
    r"^All files +\| +(\d{1,3}(?:\.\d{1,9})?) \|",
)


def coverage_percent(output: str) -> float | None:
    """The lowest of the totals: of several packages each is a part that may have lost its tests.

    >>> coverage_percent("TOTAL      120     30    75%")
    75.0
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    totals = [float(match[1]) for pattern in TOTALS for match in re.finditer(pattern, plain, re.MULTILINE)]
    return min((total for total in totals if total <= 100), default=None)
