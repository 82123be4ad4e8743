"""Asks as a person at a shell meets them: printed, listed, answered elsewhere, after their worker was killed."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import ExitStack

import pytest
from scripted import scripted_model
from shell import User

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

# `eval` hides what it runs, so that a person is asked.
COMMAND = "eval echo one >> notes.txt"
ASKS = f"""
rules:
  - {{when: {{turn: 1}}, reply: {{tool_calls: [{{name: bash, arguments: {{command: "{COMMAND}"}}}}]}}}}
  - {{reply: {{text: "It said: ${{result.0}}"}}}}
"""
CHILD_ASKS = f"""
rules:
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{{name: task, arguments: {{description: x, prompt: look, subagent_type: general}}}}]}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: "${{result.0}}"}}}}
  - when: {{prompt_contains: look, turn: 1}}
    reply: {{tool_calls: [{{name: bash, arguments: {{command: "{COMMAND}"}}}}]}}
  - {{reply: {{text: "The child said: ${{result.0}}"}}}}
"""


@pytest.fixture
def model(user: User):
    """`model(script)` points the user's workers at it."""
    with ExitStack() as stack:

        def serve(script: str) -> None:
            file = user.home / "script.yaml"
            file.write_text(script)
            user.environment = stack.enter_context(scripted_model(file))

        yield serve
        user.muster("down")


def open_ask(user: User) -> dict:
    listed = user.muster("ask", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    [ask] = [json.loads(line) for line in listed.stdout.splitlines()]
    return ask


@pytest.mark.parametrize(("script", "asker"), [(ASKS, "build"), (CHILD_ASKS, "general")], ids=["root", "child"])
def test_an_ask_is_answered_after_its_worker_was_killed(user: User, model, script: str, asker: str):
    model(script)
    run = user.muster("run", "lead", "--repo", "more-itertools")
    assert run.returncode == 9, run.stderr
    ask = open_ask(user)
    assert (ask["agent"], ask["detail"]) == (asker, COMMAND)
    assert f"| {COMMAND}" in run.stderr and f"muster ask answer {ask['ask_id']} once" in run.stderr
    root = next(task for task in user.tasks() if task["agent"] == "run")
    for pid in workers_that_ran(user, root["task_id"]):
        os.kill(pid, signal.SIGKILL)

    answered = user.muster("ask", "answer", ask["ask_id"][-6:], "once")
    watched = user.muster("task", "watch", root["task_id"])

    assert answered.returncode == 0, answered.stderr
    assert watched.returncode == 0, watched.stderr
    assert "said" in watched.stdout
    assert "+one" in user.muster("task", "diff", root["task_id"]).stdout
    assert user.muster("ask", "list", "--json").stdout == ""


def workers_that_ran(user: User, root: str) -> set[int]:
    """The processes that have had a part in a goal's agents so far."""
    told = user.muster("task", "list", "--trace", root, "--json").stdout.splitlines()
    agents = [task["task_id"] for task in map(json.loads, told) if task["agent"] != "run"]
    lives = [json.loads(user.muster("task", "show", "--json", task_id).stdout) for task_id in agents]
    return {int(attempt["worker"].split("-")[-2]) for life in lives for attempt in life["life"]["attempts"]}


def test_a_refusal_ends_the_goal_with_its_own_exit_code(user: User, model):
    model(ASKS)
    user.muster("run", "lead", "--repo", "more-itertools")
    root = next(task for task in user.tasks() if task["agent"] == "run")

    ask = open_ask(user)["ask_id"]
    user.muster("ask", "answer", ask, "reject")
    late = user.muster("ask", "answer", ask, "once")
    watched = user.muster("task", "watch", root["task_id"])

    assert late.returncode == 2 and re.search(r"error: cli:\S+ has answered this already: reject\n", late.stderr)

    assert watched.returncode == 7, watched.stderr
    assert "a person refused" in watched.stderr


def test_without_input_nobody_is_asked(user: User, model):
    model(ASKS)

    done = user.muster("run", "lead", "--repo", "more-itertools", "--no-input")

    assert done.returncode == 0, done.stderr
    assert "needs a person's approval" in done.stdout


EDITS = """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: cat /opt/x; true}}]}}
  - {reply: {text: "It said: ${result.0}"}}
"""


def test_always_is_kept_for_the_project(user: User, model):
    model(EDITS)
    user.muster("run", "lead", "--repo", "more-itertools")
    ask = open_ask(user)
    assert ask["always"] == ["external_directory:/opt/*"]
    user.muster("ask", "answer", ask["ask_id"], "always")
    [kept] = (user.state / "approvals").glob("*.json")
    assert json.loads(kept.read_text())["approved"] == ["external_directory:/opt/*"]

    again = user.muster("run", "lead once more", "--repo", "more-itertools")

    assert again.returncode == 0, again.stderr
    assert "No such file" in again.stdout
