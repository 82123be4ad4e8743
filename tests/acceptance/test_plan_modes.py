"""docs/plans.md as somebody follows it: each way to plan a goal, on one fleet with real workers."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator

import pytest
from scripted import scripted_model
from shell import ROOT, User, demo, git

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

PAGE = (ROOT / "docs" / "plans.md").read_text()


@pytest.fixture
def planner(user: User) -> Iterator[User]:
    with scripted_model(ROOT / "examples" / "plan" / "modes.yaml") as user.environment:
        yield user
        user.muster("down")


def command(mode: str) -> list[str]:
    """The page's own example of a mode."""
    [line] = re.findall(rf"^muster (run .*--plan {mode}\b.*)$", PAGE, re.MULTILINE)
    return shlex.split(line)


def agents_of(user: User, root: str) -> Counter[str]:
    listed = user.muster("task", "list", "--trace", root, "--json").stdout.splitlines()
    return Counter(json.loads(line)["agent"] for line in listed)


def added(user: User, root: str) -> list[str]:
    diff = user.muster("task", "diff", root).stdout
    return [line[1:].strip() for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line) and line.strip() != "+"]


def test_each_way_to_plan_a_goal(planner: User):
    roots, ends = {}, {}
    for mode in ("layered", "on-demand", "light", "living"):
        words = ["--setup", demo.SETUP, "--gate", demo.TESTS] if mode == "layered" else []
        ends[mode] = planner.muster(*command(mode), "--no-input", *words)
        assert ends[mode].returncode == 0, f"{mode}: {ends[mode].stderr}"
        roots[mode] = next(task["task_id"] for task in planner.tasks() if task["agent"] == "run")
    changes = {mode: added(planner, root) for mode, root in roots.items()}
    agents = {mode: agents_of(planner, root) for mode, root in roots.items()}
    plans = {mode: planner.muster("plan", "show", root).stdout for mode, root in roots.items()}

    assert agents == {
        "layered": {"run": 1, "plan": 1, "explore": 1, "build": 3, "verify": 2},
        "on-demand": {"run": 1, "build": 2, "plan": 1},
        "light": {"run": 1, "plan": 1, "build": 1},
        "living": {"run": 1, "plan": 1, "build": 1},
    }
    assert "done and verified" in ends["layered"].stderr
    assert "It is defined in more_itertools/more.py:" in ends["layered"].stdout
    assert "chunked() refuses a size below 1." in ends["layered"].stdout.partition("Both are there:")[2]
    told = "chunked() refuses a size below 1."
    assert changes == {
        "layered": [told, "if n is not None and n < 1:", "raise ValueError('n must be at least 1, not {}'.format(n))"],
        "on-demand": [told],
        "light": ["Waypoints were seen."],
        "living": ["The plan lived."],
    }
    assert plans["layered"].strip() == re.findall(r"```text\n(plan, version 1.*?)\n```", PAGE, re.DOTALL)[0]
    assert plans["on-demand"].startswith("plan, version 2: Tell the news, when nothing else helps.\n  ✔ tell")
    assert (
        plans["living"].startswith("plan, version 3:")
        and "✔ look Find the file (build): it is NEWS.txt" in plans["living"]
    )
    assert planner.muster("plan", "show", roots["light"]).returncode == 2
    assert git(planner.home / "more-itertools", "status", "--porcelain") == ""
