"""Somebody at a shell, for the acceptance tests: the `muster` command, git, the list of containers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent


def _demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo" / "demo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = _demo()


@dataclass
class User:
    """Somebody at a shell: a folder to work in, an environment, and the `muster` command."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.home / "state"

    def muster(self, *words: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "muster", *words], env=self._env(), cwd=self.home, capture_output=True, text=True, timeout=timeout_s
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BIN / "muster", *words], env=self._env(), cwd=self.home, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def tasks(self) -> list[dict[str, Any]]:
        done = self.muster("task", "list", "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def _env(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        # the short lease is for the kill test: a lost worker's task comes back after it
        return {**clean, "MUSTER_STATE_DIR": str(self.state), "MUSTER_LEASE_S": "3", **self.environment}


FORMAT = '{{.Names}} {{.Mounts}} {{if .Label "muster.reader"}}reader{{end}}'


def containers(user: User) -> list[str]:
    """Sandboxes of this user's fleet: they mount the tool server from its state folder."""
    listed = subprocess.run(
        ["docker", "ps", "--all", "--no-trunc", "--format", FORMAT, "--filter", "label=muster.owner"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in listed.stdout.splitlines() if str(user.state) in line]


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
