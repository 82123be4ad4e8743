"""What the next step of a job goes by, a line `name=value` each: GitHub's outputs, and GitLab's dotenv report. Pure."""

from __future__ import annotations

from envelope.errors import ExitCode
from envelope.messages import TaskResult

from ..report import BatchReport


def outputs(report: BatchReport, result: TaskResult, exit_code: ExitCode) -> str:
    """`commit` is of the first repository that was changed; the JSON Lines have all of them. `excused`: how many tests
    fail as they do on the base.

    No value can begin a line of its own.
    """
    changed = next((one for one in report.repositories if one.changed), None)
    values = {
        "task": result.task_id,
        "status": str(result.status),
        "exit_code": str(int(exit_code)),
        "verified": str(report.verified).lower(),
        "excused": str(report.excused),
        "branch": report.branch,
        "commit": changed.commit if changed else "",
        "cost_usd": f"{report.cost_microusd / 1_000_000:.6f}",
    }
    return "".join(f"{name}={' '.join(value.split())}\n" for name, value in values.items())
