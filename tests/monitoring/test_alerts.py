"""Each alert fires when it should and else does not, says so in words, and has a page that tells what to do."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.metrics.table import ORCHESTRATOR
from scripts.monitoring.__main__ import files
from workers.metrics.table import WORKER

ROOT = Path(__file__).parent.parent.parent
RULES = sorted((ROOT / "helm" / "muster" / "rules").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"
CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text())
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
SECTIONS = ("What it means", "How to look", "What to do", "What not to do", "It is over when")


def promtools_form(name: str, case: dict[str, Any]) -> dict[str, Any]:
    rule = ALERTS[name]
    firing = {
        "exp_labels": {**rule["labels"], **(case.get("fires") or {})},
        "exp_annotations": {**rule["annotations"], "summary": case.get("says")},
    }
    expected = [firing] if "fires" in case else []
    return {
        "name": f"{name}: {case['why']}",
        "interval": case.get("every", "1m"),
        "input_series": [{"series": series, "values": values} for series, values in case["series"].items()],
        "alert_rule_test": [{"eval_time": case["at"], "alertname": name, "exp_alerts": expected}],
    }


def test_each_fires_when_it_should_and_not_else(debian_program: Callable[[str], str], tmp_path: Path):
    groups: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for name, cases in CASES.items():
        for case in cases:  # only two alerts read the levels, whose rules cost the most
            groups.setdefault((case.get("every", "1m"), "ErrorBudget" in name), []).append(promtools_form(name, case))
    for number, ((step, levels), tests) in enumerate(groups.items()):
        rules = [str(path) for path in RULES if levels or path.stem != "slo"]
        whole = {"rule_files": rules, "evaluation_interval": step, "tests": tests}
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(whole))
    done = subprocess.run(
        [debian_program("promtool"), "test", "rules", *tmp_path.glob("*.yaml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules(debian_program: Callable[[str], str]):
    done = subprocess.run([debian_program("promtool"), "check", "rules", *RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_of_the_service_levels_are_those_of_their_source():
    stale = [path.name for path, text in files().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "write them anew: python -m scripts.monitoring"


@pytest.mark.parametrize("name", ALERTS)
def test_each_is_tried_both_ways(name: str):
    fires = [("fires" in case) for case in CASES[name]]
    assert True in fires and False in fires


def test_nothing_is_tried_that_does_not_exist():
    assert set(CASES) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_each_has_its_page_and_says_where(name: str):
    rule = ALERTS[name]
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
    assert rule["labels"]["severity"] in ("page", "ticket")
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(SECTIONS)
    assert f"({name}.md)" in (RUNBOOKS / "README.md").read_text()


def test_the_metrics_page_worries_where_an_alert_does():
    """Of alerts that are one metric above one number; 0 is `Any` there."""
    worries = {metric.full_name: metric.worry for metric in (*ORCHESTRATOR, *WORKER)}
    bounds = [re.fullmatch(r"max by \([^)]+\) \((muster_\w+)\) > (\d+)", rule["expr"]) for rule in ALERTS.values()]
    above = {found[1]: f"Above {int(found[2]):,}" for found in bounds if found and found[2] != "0"}
    assert len(above) >= 4
    assert {name: bound for name, bound in above.items() if bound.lower() not in worries[name].lower()} == {}


def test_no_page_is_left_of_an_alert_that_has_gone():
    assert {path.stem for path in RUNBOOKS.glob("Muster*.md")} == set(ALERTS)
