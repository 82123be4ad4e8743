"""The real command in a process of its own, on a state folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from transport.embedded import find_server

MUSTER = (sys.executable, "-m", "orchestrator.cli.main")
TIMEOUT_S = 120


@dataclass(frozen=True)
class Desk:
    """A person's desk: a home, an environment without settings, and the command."""

    home: Path
    environment: dict[str, str]

    def muster(self, *words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        done = subprocess.run(
            [*MUSTER, *words],
            capture_output=True,
            text=True,
            cwd=cwd or self.home,
            env={**self.environment, **(env or {})},
            timeout=TIMEOUT_S,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def shell(self, words: str, *, stdout: int = subprocess.DEVNULL) -> Done:
        """The command as a shell starts it: its streams may go elsewhere."""
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {words}', "sh", *MUSTER],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env=self.environment,
            timeout=TIMEOUT_S,
        )
        return Done(done.returncode, "", done.stderr)

    def git(self, *words: str, repository: Path) -> str:
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "init.defaultBranch=main")
        command = ("git", *identity, "-C", str(repository), *words)
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, check=True)
        return done.stdout.strip()

    def repository(self, name: str, files: dict[str, str]) -> Path:
        root = self.home / name
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        self.git("init", "-q", repository=root)
        self.git("add", "-A", repository=root)
        self.git("commit", "-q", "-m", "start", repository=root)
        return root


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: str
    stderr: str


@contextmanager
def make_desk() -> Iterator[Desk]:
    # Not pytest's own folder: its path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        home = Path(folder)
        ours = ("MUSTER_", "XDG_", "GIT_", "GITHUB_", "GITLAB_", "RUNNER_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        own = {"HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run", "MUSTER_STATE_DIR": f"{folder}/state"}
        (home / "run").mkdir(mode=0o700)
        desk = Desk(home, {**kept, **own, "PYTHONSAFEPATH": "1", "NO_COLOR": "1", "COLUMNS": "100"})
        yield desk
        if any(home.glob("run/**/control.sock")):
            assert desk.muster("down").exit_code == 0


@pytest.fixture
def desk() -> Iterator[Desk]:
    with make_desk() as desk:
        yield desk


@pytest.fixture(scope="module")
def fleet_environment() -> dict[str, str]:
    """What a module's fleet is started with, beside its state folder."""
    return {}


@pytest.fixture(scope="module")
def fleet(fleet_environment: dict[str, str]) -> Iterator[Desk]:
    """One running fleet for a whole module: starting one takes longer than what most tests do with it."""
    with make_desk() as desk:
        running = replace(desk, environment=desk.environment | fleet_environment)
        started = running.muster("up", "--detach")
        assert started.exit_code == 0, started.stderr
        yield running


@pytest.fixture
def fleet_desk(fleet: Desk) -> Desk:
    """A folder of its own to work in, on the module's fleet."""
    return replace(fleet, home=Path(tempfile.mkdtemp(dir=fleet.home)))


def _redis(folder: Path, policy: str) -> Iterator[str]:
    socket = folder / "redis.sock"
    words = (
        "--port",
        "0",
        "--unixsocket",
        str(socket),
        "--save",
        "",
        "--maxmemory-policy",
        policy,
        "--daemonize",
        "no",
    )
    server = subprocess.Popen([find_server(), *words], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if "ready to accept connections" in line.lower():
            break
    try:
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def plain_redis(desk: Desk) -> Iterator[str]:
    yield from _redis(desk.home, "noeviction")


@pytest.fixture
def evicting_redis(desk: Desk) -> Iterator[str]:
    yield from _redis(desk.home, "allkeys-lru")
