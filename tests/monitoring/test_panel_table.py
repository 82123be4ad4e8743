"""docs/dashboards.md shows each panel as it is, with what a real Prometheus said."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.dashboards import BEGIN, END, NOTHING
from scripts.monitoring.panels import DASHBOARDS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "dashboards.md").read_text()
TABLE = PAGE.partition(BEGIN)[2].partition(END)[0]
ROWS = [
    (panel, query.replace("\\|", "|"), value)
    for panel, query, value in re.findall(r"^\| (.+?) \| `(.+)` \| (.+) \|$", TABLE, re.MULTILINE)
]


def test_the_table_has_each_panel_and_query():
    assert [(panel, query) for panel, query, _ in ROWS] == [
        (panel.title, query) for board in DASHBOARDS for panel in board.panels for _, query in panel.queries
    ], "write it anew: python -m benchmarks.dashboards"


def test_most_of_them_found_something():
    """What the page says did not happen in that load; a panel that nothing can fill would hide among many."""
    empty = [panel for panel, _, value in ROWS if value == NOTHING]
    assert len(empty) < len(ROWS) / 4, empty
