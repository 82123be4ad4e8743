"""The main job: a batch without a model over a real package, twice, and through a killed worker and an interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from shell import User, containers, git, interrupt

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

BRANCH = "muster/modernise"
ITS_OWN_TESTS = 304  # what the package's suite counts under pytest


def report_of(user: User) -> dict[str, Any]:
    (batch,) = [task for task in user.tasks() if task["agent"] == "batch"]
    shown = user.muster("batch", "show", batch["task_id"], "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["repositories"][0]


@pytest.fixture(scope="module")
def calm(module_user: User) -> User:
    """Whose batch has ended, and nobody disturbed it."""
    done = module_user.muster("batch", "run", "batch.toml")
    assert done.returncode == 0, done.stderr
    return module_user


def commit_of(user: User) -> str:
    return git(user.home / "more-itertools", "rev-parse", BRANCH)


def test_a_batch_is_merged_and_proved_and_a_second_run_submits_nothing(calm: User):
    user, commit = calm, commit_of(calm)
    repository = report_of(user)
    assert repository["commit"] == commit
    assert repository["verified"] is True
    assert repository["before"]["tests"] == repository["after"]["tests"] == ITS_OWN_TESTS
    assert [shard["outcome"] for shard in repository["shards"]] == [
        "empty",
        "applied",
        "empty",
        "empty",
        "applied",
        "empty",
    ]
    tasks = user.tasks()

    second = user.muster("batch", "run", "batch.toml")

    assert second.returncode == 0, second.stderr
    assert "nothing is submitted again" in second.stderr
    assert commit_of(user) == commit
    assert user.tasks() == tasks


def test_a_killed_worker_changes_neither_the_patches_nor_their_number(user: User, calm: User):
    process = user.start("batch", "run", "batch.toml", "--json")
    os.kill(int(next(workers_at_work(process)).split("-")[1]), signal.SIGKILL)
    _, complaint = process.communicate(timeout=200)

    assert process.returncode == 0, complaint
    repository = report_of(user)
    assert repository["verified"] is True
    assert sum(task["lost_leases"] for task in user.tasks()) > 0, "the kill hit nothing"
    assert results_of(user, repository) == {shard["task_id"]: 1 for shard in repository["shards"]}
    assert repository["commit"] == commit_of(calm)


def test_an_interrupt_leaves_no_container_no_process_and_no_branch(user: User):
    process = user.start("batch", "run", "batch.toml", "--json", "--no-input")
    next(workers_at_work(process))
    interrupt(process)
    process.communicate(timeout=60)

    assert process.returncode == 130
    assert containers(user) == []
    assert git(user.home / "more-itertools", "branch", "--list", BRANCH) == ""
    states = {task["agent"]: task["state"] for task in user.tasks()}
    assert states["batch"] == "cancelled"
    assert set(states.values()) <= {"cancelled", "completed"}


def test_killing_the_command_line_stops_nothing_and_attach_finds_the_batch_again(user: User):
    process = user.start("batch", "run", "batch.toml", "--json")
    next(workers_at_work(process))
    process.kill()
    process.communicate()
    (batch,) = [task for task in user.tasks() if task["agent"] == "batch"]

    attached = user.muster("batch", "attach", batch["task_id"])

    assert attached.returncode == 0, attached.stderr
    assert commit_of(user) == report_of(user)["commit"]


def workers_at_work(process: subprocess.Popen[str]) -> Iterator[str]:
    """The names (host-pid-random) of workers, each time that one of them begins to run a command."""
    worker_of: dict[str, str] = {}
    assert process.stdout is not None
    for message in map(json.loads, process.stdout):
        for event in message.get("events", ()):
            if event["kind"] == "state" and event["state"] == "running":
                worker_of[message["task_id"]] = event["worker"]
            if event["kind"] == "tool_call" and event["state"] == "running":
                yield worker_of[message["task_id"]]


def results_of(user: User, repository: dict[str, Any]) -> dict[str, int]:
    """How many terminal events each shard has in its own stream."""
    counts = {}
    for shard in repository["shards"]:
        watched = user.muster("task", "watch", shard["task_id"], "--json")
        messages = [json.loads(line) for line in watched.stdout.splitlines()]
        counts[shard["task_id"]] = sum(message["kind"] == "result" for message in messages)
    return counts
