"""Was this job started by somebody who may write? Exit code 0: yes. 1: a stranger may have, so that it may only look.

What is not known to need the right to write counts as a stranger's. Only GitHub and GitLab tell it themselves; of other
systems the operator has to, by `MUSTER_CI_TRUST` (docs/ci.md). Standard library alone: it runs before Muster.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GITHUB = {"push", "schedule", "workflow_dispatch", "repository_dispatch", "merge_group", "release"}
# Not `pipeline`: another project's pipeline chooses our branch and variables, and a stranger may have started that one.
GITLAB = {"push", "schedule", "web", "api", "trigger"}
# These mark each build of a change request, Jenkins of all branch sources (CHANGE_ID). CircleCI marks no fork
# that its GitHub App builds, and of a system that is not known nothing is known.
MARKING = {
    "JENKINS_URL",
    "GITLAB_CI",
    "BUILDKITE",
    "TF_BUILD",
    "DRONE",
    "CI_PIPELINE_EVENT",
    "TRAVIS",
    "BITBUCKET_BUILD_NUMBER",
}
# As branch sources and plug-ins call it: CHANGE_ID, GERRIT_REFSPEC, ghprbPullId, gitlabMergeRequestIid,
# giteePullRequestIid, GITHUB_PR_NUMBER, BITBUCKET_PR_ID, BUILDKITE_PULL_REQUEST, SYSTEM_PULLREQUEST_PULLREQUESTID …
CHANGE_NAME = re.compile(r"^change_|^gerrit_|^ghprb|(pull|merge)_?request|(^|_)(pr|mr)(_|$)", re.IGNORECASE)
CHANGE_REF = re.compile(r"(refs/|origin/)*(pull|pr|pull-requests|merge-requests|changes|for)/", re.IGNORECASE)


def is_trusted(environ: Mapping[str, str], event: Any) -> bool:
    """`event` is GitHub's payload; None elsewhere, and where it cannot be read.

    >>> is_trusted({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "issues"}, {})
    False
    >>> is_trusted({"JENKINS_URL": "https://jenkins.example.com", "BRANCH_NAME": "main"}, None)
    False
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        return _on_github(environ, event)
    if environ.get("GITLAB_CI") == "true":
        name = environ.get("CI_PIPELINE_SOURCE", "")
        source, target = (environ.get(f"CI_MERGE_REQUEST_{what}PROJECT_ID", "") for what in ("SOURCE_", ""))
        if source or target or name == "merge_request_event":
            return name in ("merge_request_event", "parent_pipeline") and source == target != ""
        if name != "parent_pipeline":  # whose own source is not told
            return name in GITLAB
    trust = environ.get("MUSTER_CI_TRUST", "")
    if trust != "branches":
        return trust == "everyone"
    return not MARKING.isdisjoint(environ) and not any(_tells_of_a_change(*each) for each in environ.items())


def _on_github(environ: Mapping[str, str], event: Any) -> bool:
    name, actor = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_ACTOR", "")
    if name in ("push", "pull_request") and actor == "dependabot[bot]":
        return False  # as GitHub has it: what it brings in is a stranger's
    if name != "pull_request":
        return name in GITHUB
    # Gitea and Forgejo call themselves GitHub. Whoever may read there can push to refs/for/…, and the request that this
    # makes is of the repository itself.
    if environ.get("GITEA_ACTIONS") or environ.get("FORGEJO_ACTIONS"):
        return False
    try:
        head, base = (event["pull_request"][side]["repo"]["id"] for side in ("head", "base"))
    except (KeyError, TypeError):  # the fork is gone, say
        return False
    return head == base


def _tells_of_a_change(name: str, value: str) -> bool:
    if value.lower() in ("", "false") or name == "gitlabMergeRequestLastCommit":  # which a push has, too
        return False
    return bool(CHANGE_NAME.search(name) or CHANGE_REF.match(value))


def _event(environ: Mapping[str, str]) -> Any:
    try:
        return json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return None


if __name__ == "__main__":
    sys.exit(0 if is_trusted(os.environ, _event(os.environ)) else 1)
