"""GitLab's code quality report: what was not done, in the widget of a merge request."""

from __future__ import annotations

import hashlib
import json

from ..report import BatchReport
from .findings import Finding, findings


def codequality(report: BatchReport) -> str:
    """The same finding has the same fingerprint in the next run, so that a request shows what is new."""
    return json.dumps([_issue(one) for one in findings(report)], indent=1) + "\n"


def _issue(one: Finding) -> dict[str, object]:
    about = "\n".join((one.repository, one.rule, one.file))
    return {
        "description": f"{one.repository}: {one.message}",
        "check_name": one.rule,
        "fingerprint": hashlib.sha256(about.encode()).hexdigest(),
        "severity": "major",
        "location": {"path": one.file or ".", "lines": {"begin": 1}},
    }
