"""Writes the dashboards and the rules of the service levels into the chart.

python -m scripts.monitoring
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from .grafana import dashboard
from .panels import DASHBOARDS
from .slos import rules

CHART = Path(__file__).parent.parent.parent / "helm" / "muster"
MADE = "# Made by `python -m scripts.monitoring`; change scripts/monitoring/slos.py.\n"


def files() -> dict[Path, str]:
    made = {
        CHART / "dashboards" / f"{each.uid}.json": json.dumps(dashboard(each), indent=1) + "\n" for each in DASHBOARDS
    }
    return {**made, CHART / "rules" / "slo.yaml": MADE + yaml.safe_dump(rules(), sort_keys=False, width=10_000)}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
