"""Grafana's form of a dashboard."""

from __future__ import annotations

from typing import Any

from .panels import Dashboard, Panel
from .promql import of_fleet

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, STAT_WIDTH, STAT_HEIGHT, WIDTH, HEIGHT = 24, 6, 4, 12, 8
RUNBOOKS = "docs/runbooks/"  # the chart puts a base URL in its place
SCHEMA = 39


def dashboard(of: Dashboard) -> dict[str, Any]:
    return {
        "uid": of.uid,
        "title": of.title,
        "description": "Made by `python -m scripts.monitoring`; change scripts/monitoring/panels.py.",
        "tags": ["muster"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "annotations": {"list": []},
        "links": [{"type": "dashboards", "title": "Muster", "tags": ["muster"], "asDropdown": True}],
        "templating": {"list": variables(of)},
        "panels": panels(of),
    }


def variables(of: Dashboard) -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    return [source, *(choice(name, series) for name, series in (("fleet", "muster_build_info"), *of.variables))]


def choice(name: str, series: str) -> dict[str, Any]:
    """All of a label's values; `.*` also matches series without that label."""
    query = f"label_values({of_fleet(series) if name != 'fleet' else series}, {name})"
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def panels(of: Dashboard) -> list[dict[str, Any]]:
    """Stats first, four in a row; below them two in a row."""
    drawn: list[dict[str, Any]] = []
    x = y = height = 0
    for number, each in enumerate(of.panels, start=1):
        width, tall = (STAT_WIDTH, STAT_HEIGHT) if each.kind == "stat" else (WIDTH, HEIGHT)
        if x + width > COLUMNS or (drawn and tall != height):
            x, y = 0, y + height
        height = tall
        drawn.append(panel(each, number, {"x": x, "y": y, "w": width, "h": tall}))
        x += width
    return drawn


def panel(of: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    links = [{"title": f"Runbook: {of.alert}", "url": f"{RUNBOOKS}{of.alert}.md", "targetBlank": True}]
    return {
        "id": number,
        "type": of.kind,
        "title": of.title,
        "description": f"When to worry: {of.worry}",
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": of.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": of_fleet(query), "legendFormat": legend}
            for at, (legend, query) in enumerate(of.queries)
        ],
        "links": links if of.alert else [],
    }
