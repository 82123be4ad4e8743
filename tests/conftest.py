"""Tiers: a test that needs a server says so by its marker. At a desk without that server it is skipped with a reason;
under MUSTER_TEST_STRICT=1 (CI, `make test`) it fails, so that a green run has run everything."""

from __future__ import annotations

import ctypes
import functools
import gc
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode

import hypothesis
import pytest
import redis

# A machine that is busy for 200 ms, which is the deadline of an example by default, proves nothing wrong.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

AGAIN = os.environ.get("MUSTER_TEST_AGAIN") == "1"  # scripts/test.sh runs what failed once more
CHROMIUM = Path("/usr/bin/chromium")
ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
STRICT = os.environ.get("MUSTER_TEST_STRICT") == "1" or os.environ.get("CI") == "true"


@functools.cache
def missing(tier: str) -> str:
    """Why this tier cannot run here; empty when it can."""
    if tier == "docker":
        try:
            done = subprocess.run(["docker", "version"], capture_output=True, timeout=20)
        except FileNotFoundError:
            return "no docker client"
        return "" if done.returncode == 0 else "no Docker engine answers"
    if tier == "browser":
        return "" if CHROMIUM.exists() else f"no {CHROMIUM} (scripts/test-tools.sh installs it)"
    if tier == "redis":
        beside = Path(sys.executable).parent
        return "" if shutil.which("redis-server") or (beside / "redis-server").exists() else "no redis-server"
    return ""


def cannot_run(tier: str, reason: str) -> NoReturn:
    if STRICT:
        pytest.fail(f"the {tier} tier cannot run: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def full_redis() -> Path:
    """A redis-server with TLS, cluster and Sentinel (Debian's has them); the bundled one has not."""
    program = shutil.which("redis-server", path="/usr/local/bin:/usr/bin:/bin")
    if program is None:
        cannot_run("redis", "no redis-server of the system's, with TLS, cluster and Sentinel")
    return Path(program)


@pytest.fixture(scope="session")
def tmux() -> str:
    program = shutil.which("tmux")
    if program is None:
        cannot_run("terminal", "no tmux (scripts/test-tools.sh installs it)")
    return program


@pytest.fixture(scope="session")
def debian_program() -> Callable[[str], str]:
    """`debian_program("promtool")`: where a program is that scripts/test-tools.sh installs."""

    def find(name: str) -> str:
        return shutil.which(name) or cannot_run("tools", f"no {name} (scripts/test-tools.sh installs it)")

    return find


@pytest.fixture(scope="session")
def npm_package() -> Callable[[str], Path]:
    """`npm_package("axe-core")`: the folder of a package that requirements/node locks."""

    def find(name: str) -> Path:
        folder = Path(__file__).parent.parent / ".node/node_modules" / name
        return folder if folder.is_dir() else cannot_run("tools", f"no {name} (scripts/test-tools.sh installs it)")

    return find


@pytest.fixture(scope="session")
def engine_holds() -> Callable[[str, str], list[str]]:
    """`engine_holds("containers", "muster.owner=me")`, or `"volumes"`: what the engine has with this label.

    Asked over its socket: hundreds of tests ask, and `docker` would be a process for each.
    """

    def ask(kind: str, label: str) -> list[str]:
        path, read = LISTINGS[kind]
        connection = http.client.HTTPConnection("engine")
        with socket.socket(socket.AF_UNIX) as connection.sock:
            connection.sock.connect(ENGINE.removeprefix("unix://"))
            connection.request("GET", path + urlencode({"filters": json.dumps({"label": [label]})}))
            return read(json.load(connection.getresponse()))

    return ask


LISTINGS: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "containers": ("/containers/json?all=1&", lambda told: [each["Id"] for each in told]),
    "volumes": ("/volumes?", lambda told: [each["Name"] for each in told["Volumes"] or ()]),
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG of linux/prctl.h


class RedisProcess:
    """A server that tests may kill, and start again at the same port with the same files. Its log tells its events."""

    def __init__(self, program: Path, home: Path, options: Sequence[str], *, sentinel: str = "") -> None:
        self.port = free_port()
        self.home = home
        self._lines: list[str] = []
        self._news = threading.Condition()
        # a sentinel writes what it learns into its configuration
        configuration = home / "redis.conf"
        configuration.write_text(sentinel)
        # `appendfsync no`: a kill loses nothing that was acknowledged, however slow the disk is
        self._arguments = [program, configuration, "--port", str(self.port), "--dir", str(home)]
        self._arguments += ["--save", "", "--appendfsync", "no", *options]
        self._arguments += ["--sentinel"] if sentinel else []
        self._ready = "+monitor" if sentinel else "Ready to accept connections"

    def start(self) -> None:
        with self._news:
            self._lines.clear()
        self.process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, text=True, errors="replace", preexec_fn=_die_with_parent
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        self.wait_for(self._ready)

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        """Until the log has said this since the start, or since `forget_log`."""
        with self._news:
            assert self._news.wait_for(lambda: any(text in line for line in self._lines), timeout_s), self._lines

    def forget_log(self) -> None:
        with self._news:
            self._lines.clear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def command(self, *words: str | int) -> Any:
        """The reply as the server gave it, whatever the library thinks the command means."""
        connection = redis.Connection(port=self.port, lib_name=None, lib_version=None, decode_responses=True)
        try:
            connection.send_command(*words)
            return connection.read_response()
        finally:
            connection.disconnect()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()


StartRedis = Callable[..., RedisProcess]
SLOTS = 16384  # of every Redis Cluster


@pytest.fixture(scope="session")
def start_redis(full_redis: Path) -> Iterator[StartRedis]:
    """Starts servers of the system's kind, or of another, on free ports; the session ends them."""
    with tempfile.TemporaryDirectory(prefix="muster-servers-") as folder, ExitStack() as stack:

        def start(*options: str, sentinel: str = "", program: Path = full_redis) -> RedisProcess:
            home = Path(tempfile.mkdtemp(dir=folder))
            process = RedisProcess(program, home, options, sentinel=sentinel)
            stack.callback(process.kill)
            process.start()
            return process

        yield start


@pytest.fixture(scope="session")
def start_own_cluster(start_redis: StartRedis) -> Callable[[], list[RedisProcess]]:
    def start(nodes: int = 3) -> list[RedisProcess]:
        """Masters with equal shares of the slots, as soon as each knows the owner of every slot.

        Only full coverage makes a node wait for that; the tests want a cluster that serves without it.
        """
        masters = [
            start_redis(
                *("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-node-timeout", "5000"),
                *("--cluster-require-full-coverage", "yes", "--appendonly", "yes"),
            )
            for _ in range(nodes)
        ]
        share = SLOTS // nodes + 1
        for number, master in enumerate(masters):
            master.command("CLUSTER", "ADDSLOTSRANGE", number * share, min((number + 1) * share, SLOTS) - 1)
            master.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            bus = masters[0].command("CONFIG", "GET", "cluster-port")[1]
            master.command("CLUSTER", "MEET", "127.0.0.1", masters[0].port, int(bus))
        for master in masters:
            master.wait_for("Cluster state changed: ok")
            master.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
        return masters

    return start


@pytest.fixture(scope="session")
def start_own_pair(start_redis: StartRedis) -> Callable[[], tuple[RedisProcess, RedisProcess, RedisProcess]]:
    def start() -> tuple[RedisProcess, RedisProcess, RedisProcess]:
        """A master, its replica in step with it, and a sentinel that knows both (of the service `fleet`)."""
        master = start_redis("--repl-diskless-sync-delay", "0", "--appendonly", "yes")
        replica = start_redis("--replicaof", f"127.0.0.1 {master.port}", "--appendonly", "yes")
        replica.wait_for("MASTER <-> REPLICA sync: Finished with success")
        rules = f"""
sentinel monitor fleet 127.0.0.1 {master.port} 1
sentinel down-after-milliseconds fleet 1000
sentinel failover-timeout fleet 4000
"""
        sentinel = start_redis(sentinel=rules)
        sentinel.wait_for("+slave")
        return master, replica, sentinel

    return start


def pytest_collection_finish() -> None:
    """What was imported and collected is never garbage, and looking through it stops all threads: leases of some tests
    are shorter."""
    gc.collect()
    gc.freeze()


# what proves a promise counts at the first run: docs/decisions/0014
PROVEN_AT_ONCE = ("chaos", "sandbox/abuse")


# what needs the whole machine, or what a neighbour's reaper would take away: `make test` runs it after the rest
ALONE = (
    *PROVEN_AT_ONCE,
    "sandbox/test_sandbox_lifecycle.py",
    "sandbox/test_sandbox_reaping.py",
    "workers/process/test_reaping.py",
    "workers/test_hangs.py",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The second half of `make test` need not import the files of the first."""
    if config.option.markexpr != "alone" or collection_path.suffix != ".py":
        return None
    return None if _is_in(collection_path, ALONE) or "pytest.mark.alone" in collection_path.read_text() else True


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_in(item.path, ALONE):
            item.add_marker(pytest.mark.alone)
    if "PYTEST_XDIST_WORKER" in os.environ:
        _sort_by_length(items)


def _sort_by_length(items: list[pytest.Item]) -> None:
    """A file goes to whoever is free: the long ones come first, so that all end at about the same time."""
    whole_systems = {item.path for item in items if item.get_closest_marker("acceptance")}
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in whole_systems, -sizes[item.path]))


def _is_in(path: Path, places: Sequence[str]) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / place) for place in places)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if AGAIN and _is_in(item.path, PROVEN_AT_ONCE):
        pytest.fail("it failed, and what proves a promise is never run twice (docs/decisions/0014)")
    for tier in ("docker", "redis", "browser"):
        if item.get_closest_marker(tier) and (reason := missing(tier)):
            cannot_run(tier, reason)
