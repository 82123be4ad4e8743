"""The chart brings dashboards and rules along, with links that lead to where this fleet's people read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parent.parent.parent / "helm" / "muster"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or "helm"
WIKI = "https://wiki.example/runbooks/"


@pytest.fixture(scope="module")
def rendered() -> list[dict[str, Any]]:
    settings = ("metrics.rules.enabled=true", "metrics.dashboards.enabled=true", f"metrics.runbooks={WIKI}")
    words = [word for setting in settings for word in ("--set", setting)]
    command = [HELM, "template", "trial", str(CHART), "--show-only", "templates/monitor.yaml", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def test_every_rule_arrives_as_it_is_but_for_its_link(rendered: list[dict[str, Any]]):
    arrived = [document["spec"]["groups"] for document in rendered if document["kind"] == "PrometheusRule"]
    written = [yaml.safe_load(file.read_text())["groups"] for file in sorted((CHART / "rules").glob("*.yaml"))]
    for groups in written:
        for rule in (rule for group in groups for rule in group["rules"] if "annotations" in rule):
            rule["annotations"]["runbook_url"] = f"{WIKI}{rule['alert']}.md"
    assert arrived == written


def test_every_dashboard_arrives_and_links_there(rendered: list[dict[str, Any]]):
    arrived = {
        name: text
        for document in rendered
        if document["kind"] == "ConfigMap"
        for name, text in document["data"].items()
    }
    written = {file.name: file.read_text() for file in (CHART / "dashboards").glob("*.json")}
    assert arrived == {name: text.replace("docs/runbooks/", WIKI) for name, text in written.items()}
