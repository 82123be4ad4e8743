"""Service levels: how much may go wrong, and how fast it does, as recording rules.

Each level is a share of something that went wrong, over windows from five minutes to three days. Two alerts read all of
them (helm/muster/rules/alerts.yaml), so that a new level is one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
# What a task's own doing cannot cause. The other codes are for its caller, its model or its project.
PLATFORM = "internal|model_failed|poison|sandbox|unknown"
INTERACTIVE = "explore|general"
WAIT = "muster_task_queue_wait_seconds"
WAITS = f'sum by (fleet) (increase({WAIT}_count{{pool=~"{INTERACTIVE}"}}[WINDOW]))'
WAITS_IN_TIME = f'sum by (fleet) (increase({WAIT}_bucket{{pool=~"{INTERACTIVE}", le="30.0"}}[WINDOW]))'


@dataclass(frozen=True)
class Level:
    """`bad` and `all` count events, with WINDOW in the place of a range; without `bad`, `all` is a share by itself."""

    name: str
    promise: str
    budget: float
    all: str
    bad: str = ""

    def ratio(self, window: str) -> str:
        share = f"({self.bad}) / ({self.all} > 0)" if self.bad else self.all
        return share.replace("WINDOW", window)


LEVELS = (
    Level(
        "ends_in_time",
        "no task is open a minute after its deadline, in 99.9 % of the time",
        0.001,
        all="avg_over_time(muster:tasks_overdue:bool[WINDOW])",
    ),
    Level(
        "starts_in_time",
        f"95 % of the tasks of the pools {INTERACTIVE} start within 30 s",
        0.05,
        bad=f"{WAITS} - {WAITS_IN_TIME}",
        all=WAITS,
    ),
    Level(
        "platform",
        "99.5 % of the tasks do not fail by the platform's fault",
        0.005,
        bad=f'sum by (fleet) (increase(muster_tasks_finished_total{{reason=~"{PLATFORM}"}}[WINDOW]))',
        all="sum by (fleet) (increase(muster_tasks_finished_total[WINDOW]))",
    ),
)


def rules() -> dict[str, Any]:
    shared = [{"record": "muster:tasks_overdue:bool", "expr": "max by (fleet) (muster_tasks_overdue) > bool 0"}]
    return {"groups": [{"name": "muster-slo", "rules": [*shared, *(rule for each in LEVELS for rule in of(each))]}]}


def of(level: Level) -> list[dict[str, Any]]:
    labels = {"slo": level.name}
    recorded = [("muster:slo_budget", f"vector({level.budget})")]
    recorded += [(f"muster:slo_errors:ratio{window}", level.ratio(window)) for window in WINDOWS]
    if level.bad:  # how many that were: a share of three tasks says little
        recorded.append(("muster:slo_errors:count1h", level.bad.replace("WINDOW", "1h")))
    return [{"record": name, "expr": expr, "labels": labels} for name, expr in recorded]
