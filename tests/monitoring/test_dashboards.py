"""Every query of every dashboard and alert is PromQL, and asks for series and labels that somebody shows."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.metrics.table import ORCHESTRATOR
from scripts.monitoring.promql import grouped_by, selectors
from transport.metrics.table import Kind
from workers.metrics.table import WORKER

HERE = Path(__file__).parent
CHART = HERE.parent.parent / "helm" / "muster"
FILES = sorted((CHART / "dashboards").glob("*.json"))
RUNBOOKS = HERE.parent.parent / "docs" / "runbooks"
# What a scrape adds; `fleet` where the operator does (docs/dashboards.md).
OF_THE_SCRAPE = {"instance", "job", "fleet"}
SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}


def recorded() -> dict[str, set[str]]:
    """Series that our rules make: the labels that they group by and set."""
    rules = [
        rule
        for path in (CHART / "rules").glob("*.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    made: dict[str, set[str]] = {"ALERTS": {"alertname", "alertstate", "severity"}}
    for rule in rules:
        if "record" in rule:
            made.setdefault(rule["record"], set()).update(grouped_by(rule["expr"]) | set(rule.get("labels", {})))
    return made


def shown() -> dict[str, set[str]]:
    """Every series that can be asked for, with its labels: ours by their tables, the exporter's by a list."""
    series = recorded()
    for metric in (*ORCHESTRATOR, *WORKER):
        labels = {label.name for label in metric.labels}
        for suffix in SUFFIXES.get(metric.kind, ("",)):
            series.setdefault(metric.full_name + suffix, set()).update(
                labels | ({"le"} if suffix == "_bucket" else set())
            )
    for line in (HERE / "exporters.txt").read_text().splitlines():
        name, *labels = line.split()
        series[name] = set(labels)
    return series


SHOWN = shown()


def queries(file: Path) -> list[str]:
    return [target["expr"] for panel in json.loads(file.read_text())["panels"] for target in panel["targets"]]


def plain(query: str) -> str:
    """As Grafana asks it."""
    return re.sub(r"\$__rate_interval", "5m", re.sub(r'"\$\w+"', '".*"', query))


def all_queries() -> list[str]:
    dashboards = [plain(query) for file in FILES for query in queries(file)]
    rules = [
        rule["expr"]
        for path in (CHART / "rules").glob("*.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    pages = re.findall(r"^```promql\n(.*?)^```", "".join(p.read_text() for p in RUNBOOKS.glob("*.md")), re.M | re.S)
    return [*dashboards, *rules, *(query for block in pages for query in block.splitlines())]


def test_every_query_is_one(debian_program: Callable[[str], str], tmp_path: Path):
    rules = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(all_queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run([debian_program("promtool"), "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_series_that_is_asked_for_is_shown_by_somebody():
    asked = {name for query in all_queries() for name, _ in selectors(query)}
    assert sorted(asked - SHOWN.keys()) == []


def test_every_label_that_is_matched_is_one_of_the_series():
    wrong = {
        f"{name} has no {label}"
        for query in all_queries()
        for name, labels in selectors(query)
        for label in labels - SHOWN[name] - OF_THE_SCRAPE
    }
    assert wrong == set()


def test_every_label_that_is_grouped_by_is_one_of_the_query():
    wrong = {
        f"{label} in {query}"
        for query in all_queries()
        for label in grouped_by(query) - OF_THE_SCRAPE
        if not any(label in SHOWN[name] for name, _ in selectors(query))
    }
    assert wrong == set()


def test_every_metric_of_ours_is_looked_at_somewhere():
    """A metric that no panel, alert or runbook reads costs something and tells nobody anything."""
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for query in all_queries() for name, _ in selectors(query)}
    ours = {metric.full_name for metric in (*ORCHESTRATOR, *WORKER)}
    assert sorted(ours - asked) == []


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(request.param.read_text()) | {"stem": request.param.stem}


def test_it_is_the_same_on_every_grafana(board: dict[str, Any]):
    """A stable name, no number of the database it was once in, and no data source but the chosen one."""
    assert board["uid"] == board["stem"]
    assert "id" not in board
    text = json.dumps({key: board[key] for key in ("panels", "templating")})
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"${datasource}"}


def test_its_variables_are_those_that_it_uses(board: dict[str, Any]):
    offered = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps([board["panels"], board["templating"]])))
    assert used == offered
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            [(series, label)] = re.findall(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"]["query"])
            assert label in SHOWN[series] | OF_THE_SCRAPE


def test_its_panels_say_when_to_worry_and_do_not_overlap(board: dict[str, Any]):
    cells: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["description"].startswith("When to worry: ") and panel["fieldConfig"]["defaults"]["unit"]
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not mine & cells and all(x < 24 for x, _ in mine)
        cells |= mine


def test_its_links_lead_to_runbooks(board: dict[str, Any]):
    links = [link["url"] for panel in board["panels"] for link in panel["links"]]
    assert [link for link in links if not (HERE.parent.parent / link).exists()] == []
