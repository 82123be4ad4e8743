"""A goal with a model: fan-out on the pools, an edit, the gate; and a secret that must not be seen anywhere."""

from __future__ import annotations

import itertools
import json
from typing import Any
from urllib.request import urlopen

import pytest
from collector import Seen, collector
from scripted import CANARY, scripted_model
from shell import ROOT, User, demo, git

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

CALLERS_TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_an_agent_asks_three_others_at_once_edits_and_the_platform_proves_it(user: User):
    with scripted_model(ROOT / "examples" / "demo" / "model.yaml") as user.environment, collector() as traced:
        user.environment |= {**traced.environment, "TRACEPARENT": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01"}
        done = user.muster("run", demo.GOAL, "--repo", "more-itertools", "--setup", demo.SETUP, "--gate", demo.TESTS)
        root = next(task for task in user.tasks() if task["agent"] == "run")
        shown = user.muster("task", "list", "--trace", root["task_id"], "--json")
        diff = user.muster("task", "diff", root["task_id"])
        applied = user.muster("task", "apply", root["task_id"], "--repo", "more-itertools")
        counted = [metrics_of(line["metrics_port"]) for line in logged(user) if "metrics_port" in line]
        user.muster("down")

    assert done.returncode == 0, done.stderr
    assert "done and verified" in done.stderr
    tree = [json.loads(line) for line in shown.stdout.splitlines()]
    explorers = [task for task in tree if task["agent"] == "explore"]
    assert len(explorers) == 3
    assert max(task["started_at_ms"] for task in explorers) < min(task["finished_at_ms"] for task in explorers)
    assert {task["agent"] for task in tree} == {"run", "build", "explore", "verify"}
    assert applied.returncode == 0, applied.stderr
    assert git(user.home / "more-itertools", "diff", "--name-only") == "more_itertools/more.py"
    assert "n must be at least 1, not" in diff.stdout
    assert len(counted) == 4  # the orchestrator's, and each pool's
    assert seen_anywhere(CANARY, user, done.stdout, done.stderr, shown.stdout, diff.stdout, *counted) == []
    for task in tree:
        told = [line["event"] for line in logged(user) if line.get("task_id") == task["task_id"]]
        assert told.count("task_finished") == 1 <= told.count("task_started")
    is_one_tree_below_the_caller(traced.spans)
    assert not any(CANARY.encode() in body for body in traced.bodies)


def logged(user: User) -> list[dict[str, Any]]:
    """Each line of each process of the fleet, all of which are JSON."""
    files = sorted((user.state / "logs").glob("*.log"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def metrics_of(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return answer.read().decode()


def is_one_tree_below_the_caller(spans: list[Seen]) -> None:
    """All that was sent: the fleet is down by now, and each of its processes has sent the rest."""
    by_id = {span.span_id: span for span in spans}
    above = {span.name: by_id[span.parent_id].name for span in spans if span.parent_id in by_id}
    assert [span.name for span in spans if span.parent_id not in by_id] == ["submit run"]
    [submitted] = [span for span in spans if span.name == "submit run"]
    assert (submitted.trace_id, submitted.parent_id) == (CALLERS_TRACE, CALLERS_SPAN)
    assert {span.trace_id for span in spans} == {CALLERS_TRACE}
    assert {span.service for span in spans} == {
        "muster", "muster-orchestrator", "muster-worker-build", "muster-worker-explore",
    }  # fmt: skip
    assert above["attempt build"] == "submit build"
    assert above["submit build"] == above["gate"] == above["merge"] == "attempt run"
    assert above["submit explore"] == "execute_tool task"
    assert "submit verify" in {span.name for span in spans if by_id.get(span.parent_id, span).name == "gate"}
    [goal] = [span for span in spans if span.name == "attempt run"]
    [built] = [span for span in spans if span.name == "attempt build"]
    assert (CALLERS_TRACE, built.span_id) in goal.links


def test_one_slot_in_each_pool_is_enough(user: User):
    with scripted_model(ROOT / "examples" / "demo" / "model.yaml") as user.environment:
        user.environment["MUSTER_POOLS"] = json.dumps({"explore": 1, "general": 1, "build": 1})
        done = user.muster("run", demo.GOAL, "--repo", "more-itertools", "--setup", demo.SETUP, "--gate", demo.TESTS)
        tasks = user.tasks()
        shown = user.muster("task", "list", "--trace", tasks[0]["task_id"], "--json")
        user.muster("down")

    assert done.returncode == 0, done.stderr
    assert "done and verified" in done.stderr
    explorers = [task for task in map(json.loads, shown.stdout.splitlines()) if task["agent"] == "explore"]
    times = sorted((task["started_at_ms"], task["finished_at_ms"]) for task in explorers)
    assert len(times) == 3
    assert all(ended <= started for (_, ended), (started, _) in itertools.pairwise(times))


def test_a_key_that_the_provider_repeats_in_its_error_is_blanked_out(user: User):
    script = user.home / "refusing.yaml"
    script.write_text(
        f'rules: [{{when: {{}}, fault: {{status: 401, message: "Incorrect API key provided: {CANARY}"}}}}]'
    )
    with scripted_model(script) as user.environment:
        done = user.muster("run", "Say hello.", "--repo", "more-itertools")
        user.muster("down")

    assert done.returncode == 2
    assert "Incorrect API key provided: [redacted]" in done.stderr
    assert "hint: " in done.stderr
    assert seen_anywhere(CANARY, user, done.stdout, done.stderr) == []


def test_an_agent_that_has_ended_is_talked_to_again(user: User):
    script = user.home / "talking.yaml"
    script.write_text(
        'rules: [{when: {user_contains: What did}, reply: {text: "I said hello."}}, {reply: {text: "Hello."}}]'
    )
    with scripted_model(script) as user.environment:
        user.muster("run", "Say hello.", "--repo", "more-itertools")
        root = next(task for task in user.tasks() if task["agent"] == "run")
        said = user.muster("task", "prompt", root["task_id"], "What did you say?")
        watched = user.muster("task", "watch", said.stdout.strip(), "--json")
        user.muster("down")

    assert said.returncode == 0, said.stderr
    result = json.loads(watched.stdout.splitlines()[-1])
    assert "I said hello." in json.dumps(result)


def seen_anywhere(secret: str, user: User, *outputs: str) -> list[str]:
    """Every place with the secret in it: what was printed, and every file of the fleet's state (logs, blobs, Redis)."""
    needle = secret.encode()
    places = [f"output {n}" for n, output in enumerate(outputs) if secret in output]
    files = [path for path in user.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".aof" for path in files), "Redis's file is among what is searched"
    assert any(path.suffix == ".log" for path in files), "the logs are among what is searched"
    return places + [str(path) for path in files if needle in path.read_bytes()]
