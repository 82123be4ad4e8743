"""The whole of compose.yaml, brought up: Redis, engine, orchestrator, pools, API, Prometheus; a goal is done in it.

MUSTER_CHAOS=soak alone: it starts an engine in a container and lays the sandbox's image into it, which takes minutes.
Images that come from a registry are Debian's programs here; Grafana, which no package has, is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
TRIAL = Path(__file__).parent / "trial"
TRIAL_IMAGE = "muster-compose-trial:latest"
SERVICES = ("redis", "engine", "orchestrator", "serve", "explore", "general", "build", "model", "prometheus")
PATIENCE_S = 600

pytestmark = [
    pytest.mark.docker,
    pytest.mark.alone,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.environ.get("MUSTER_CHAOS") != "soak", reason="takes minutes: MUSTER_CHAOS=soak"),
]


class Machine:
    """A folder with what a user has, and the project of Compose that runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "compose"
        shutil.copytree(ROOT / "compose", self.folder, ignore=shutil.ignore_patterns("secrets", ".env"))
        shutil.copytree(ROOT / "helm", folder / "helm")
        for name in ("compose.trial.yaml", "script.yaml"):
            shutil.copy(TRIAL / name, self.folder)
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": f"trial-{uuid.uuid4().hex[:8]}",
            "COMPOSE_FILE": "compose.yaml:compose.trial.yaml",
            "COMPOSE_HTTP_TIMEOUT": str(PATIENCE_S),
            "REDIS_IMAGE": TRIAL_IMAGE,
            "ENGINE_IMAGE": TRIAL_IMAGE,
            "PROMETHEUS_IMAGE": TRIAL_IMAGE,
            **dict.fromkeys(("API_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"), "0"),  # free ones
        }

    def run(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0 or not check, f"{done.stdout}{done.stderr}"
        return done

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("docker-compose", *words, check=check)

    def state(self, service: str) -> dict[str, Any]:
        name = self.compose("ps", "--quiet", service).stdout.strip()
        return json.loads(self.run("docker", "inspect", "--format", "{{json .State}}", name).stdout)

    def wait_healthy(self, service: str) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while (state := self.state(service))["Health"]["Status"] != "healthy":
            assert time.monotonic() < until_s, f"{service}: {state}\n{self.compose('logs', service).stdout[-4000:]}"
            time.sleep(2)

    def get(self, service: str, port: int, path: str) -> bytes:
        address = self.compose("port", service, str(port)).stdout.strip()
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.read()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    images = subprocess.check_output([sys.executable, ROOT / "scripts" / "images.py"], text=True, cwd=ROOT).split()
    subprocess.check_output(
        ["docker", "build", "--network", "host", "--tag", TRIAL_IMAGE, TRIAL],
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )
    here = Machine(tmp_path_factory.mktemp("machine"))
    here.environment |= {"MUSTER_ORCHESTRATOR_IMAGE": images[1], "MUSTER_WORKER_IMAGE": images[3]}
    here.run("./setup.sh")
    make_repository(here.folder / "repository")
    try:
        here.compose("up", "--detach", *SERVICES)
        yield here
    finally:
        here.compose("down", "--volumes", "--timeout", "60")


def make_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "README").write_text("a repository\n")
    identity = ("-c", "user.name=trial", "-c", "user.email=trial@localhost")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        subprocess.check_call(["git", *identity, *words], cwd=folder)


def test_every_service_becomes_healthy(machine: Machine):
    for service in ("redis", "engine", "orchestrator", "serve", "explore", "general", "build"):
        machine.wait_healthy(service)


def test_a_goal_is_done_in_it(machine: Machine):
    words = ("Write answer.txt.", "--repo", "/repository", "--gate", "grep forty-two answer.txt", "--no-input")
    done = machine.compose("exec", "-T", "serve", "muster", "run", *words, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + machine.compose("logs", "build").stdout[-4000:]
    assert "done and verified" in done.stdout + done.stderr


def test_the_api_answers_whom_it_gave_a_token(machine: Machine):
    token = machine.compose("exec", "-T", "serve", "muster", "token", "create", "me", "--role", "viewer").stdout.strip()
    address = machine.compose("port", "serve", "8420").stdout.strip()
    asked = urllib.request.Request(f"http://{address}/v1/tasks", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert {task["agent"] for task in json.loads(answer.read())} >= {"run", "build"}


def test_prometheus_sees_every_program(machine: Machine):
    until_s, seen = time.monotonic() + PATIENCE_S, set[str]()
    while len(seen) < 4 and time.monotonic() < until_s:
        targets = json.loads(machine.get("prometheus", 9090, "/api/v1/targets"))["data"]["activeTargets"]
        seen = {target["scrapeUrl"] for target in targets if target["health"] == "up"}
        time.sleep(2)
    assert len(seen) == 4
    assert "rules" in machine.get("prometheus", 9090, "/api/v1/rules").decode()


def test_a_stop_drains_and_nothing_is_left(machine: Machine):
    machine.compose("stop", "--timeout", "90", "build")
    assert machine.state("build")["ExitCode"] == 0
    assert "worker_stopped" in machine.compose("logs", "build").stdout
    machine.compose("down", "--volumes", "--timeout", "60")
    assert machine.compose("ps", "--quiet").stdout == ""
