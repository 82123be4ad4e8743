"""Was this job started by somebody who may write? Exit code 0: yes. 1: a stranger may have, so that it may only look.

What is not known to need the right to write counts as a stranger's. Standard library alone: it runs before Muster.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GITHUB = {"push", "schedule", "workflow_dispatch", "repository_dispatch", "merge_group", "release"}
GITLAB = {"push", "schedule", "web", "api", "trigger", "pipeline", "parent_pipeline"}


def is_trusted(environ: Mapping[str, str], event: Any) -> bool:
    """`event` is GitHub's payload; None elsewhere, and where it cannot be read.

    >>> is_trusted({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "issues"}, {})
    False
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        name = environ.get("GITHUB_EVENT_NAME", "")
        return name in GITHUB or (name == "pull_request" and _is_of_this_repository(event))
    if environ.get("GITLAB_CI") == "true":
        source, target = (environ.get(f"CI_MERGE_REQUEST_{what}PROJECT_ID") for what in ("SOURCE_", ""))
        name = environ.get("CI_PIPELINE_SOURCE", "")
        return source == target if source is not None else name in GITLAB
    # Jenkins tells a fork's change by the one, the plug-in for pull requests any by the other
    return bool(environ.get("JENKINS_URL")) and not any(map(environ.get, ("CHANGE_FORK", "ghprbPullId")))


def _is_of_this_repository(event: Any) -> bool:
    try:
        head, base = (event["pull_request"][side]["repo"]["id"] for side in ("head", "base"))
    except (KeyError, TypeError):  # the fork is gone, say
        return False
    return head == base


def _event(environ: Mapping[str, str]) -> Any:
    try:
        return json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(0 if is_trusted(os.environ, _event(os.environ)) else 1)
