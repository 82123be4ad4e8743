"""`muster-worker` as a process: its answers to bad surroundings, and what is left when it is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from envelope.lifecycle import State
from sandbox.driver import DockerDriver
from transport.embedded import Server
from workers.sandboxes.owners import dead_owners, find_again, owned
from workers.sandboxes.reaping import sweep
from workers.settings import WorkerSettings

Environment = Callable[..., dict[str, str]]


def run_worker(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers.cli.worker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


# What is wrong → what the worker says of it. `FILE` stands for the user's file with the text that follows.
BAD_SURROUNDINGS: dict[str, tuple[list[str], dict[str, str], str, str, int]] = {
    "pool": (["nope"], {}, "no pool 'nope'", "build, explore, general", 2),
    "slots": (["build", "--slots", "0"], {}, "--slots", "muster-worker --help", 2),
    "flag": (["build", "--slot", "1"], {}, "no such option: --slot", "muster-worker --help", 2),
    "nothing": ([], {}, "missing argument", "muster-worker --help", 2),
    "log level": (["build", "--log-level", "loud"], {}, "no log level 'loud'", "warning", 2),
    "setting": (["build"], {"MUSTER_SLOTS": "many"}, "MUSTER_SLOTS", "unset MUSTER_SLOTS", 2),
    "prices": (["build"], {"MUSTER_PRICES": "/nowhere.toml"}, "MUSTER_PRICES", "correct", 2),
    "typo": (["build"], {"FILE": "[workers]\nslotz = 7\n"}, "unknown key 'slotz'", "did you mean 'slots'?", 2),
    "no table": (["build"], {"FILE": "workers = 7\n"}, "is no table", "[workers]", 2),
    "no TOML": (["build"], {"FILE": "slots = = 7\n"}, "cannot be read as TOML", "MUSTER_CONFIG", 2),
    "no fleet": (["build"], {}, "no fleet runs on this machine", "muster up", 6),
    "no folder": (
        ["build"],
        {"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0", "MUSTER_STATE_DIR": "/proc/nowhere"},
        "/proc/nowhere cannot be used",
        "MUSTER_STATE_DIR",
        2,
    ),
    "no Redis": (["build"], {"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"}, "Redis", "", 6),
}
# Each case as the program runs it, in one process: the imports of a worker take a second or two.
ANSWERS = """
import contextlib, io, json, os, sys
from workers.cli.worker import main
clean, answers = dict(os.environ), {}
for name, (arguments, settings) in json.load(sys.stdin).items():
    os.environ.clear(); os.environ.update(clean | settings); sys.argv[1:] = arguments
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main()
    except SystemExit as e:
        answers[name] = (said.getvalue(), int(e.code or 0))
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, environment: Environment) -> dict[str, tuple[str, int]]:
    """For each case what the worker wrote to stderr, and its exit code."""
    folder = tmp_path_factory.mktemp("surroundings")
    cases: dict[str, tuple[list[str], dict[str, str]]] = {}
    for number, (name, (arguments, told, *_)) in enumerate(BAD_SURROUNDINGS.items()):
        settings = dict(told)
        file = folder / f"{number}.toml"
        file.write_text(settings.pop("FILE", ""))
        cases[name] = (arguments, {**settings, "MUSTER_CONFIG": str(file)})
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS],
        input=json.dumps(cases), capture_output=True, text=True, timeout=60, check=True, env=environment(folder),
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", BAD_SURROUNDINGS)
def test_bad_surroundings_are_one_sentence_with_a_hint_and_an_exit_code(answers, name: str):
    *_, words, hint, exit_code = BAD_SURROUNDINGS[name]
    said, code = answers[name]

    assert code == exit_code, said
    assert said.startswith("error: ") and words in said.splitlines()[0]
    assert hint in said
    assert "Traceback" not in said


@pytest.mark.redis
def test_a_docker_that_is_not_there_is_told(environment, tmp_path, redis_server: Server):
    settings = {"MUSTER_REDIS_URL": redis_server.url, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}

    ended = run_worker("build", env=environment(tmp_path, **settings))

    assert ended.returncode == 6
    assert "Docker" in ended.stderr and "hint:" in ended.stderr


@pytest.mark.redis
@pytest.mark.docker
def test_an_image_that_is_missing_is_told(environment, tmp_path, redis_server: Server):
    settings = {"MUSTER_REDIS_URL": redis_server.url, "MUSTER_IMAGE": "muster-sandbox:never-built"}

    ended = run_worker("build", env=environment(tmp_path, **settings))

    assert ended.returncode == 6
    assert "never-built" in ended.stderr and "muster sandbox build" in ended.stderr


def test_help_imports_neither_the_engines_client_nor_the_models(tmp_path):
    program = (
        "import sys; from typer.testing import CliRunner; from workers.cli.worker import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('litellm', 'aiodocker', 'redis', 'structlog') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.redis
@pytest.mark.docker
async def test_what_a_killed_worker_leaves_is_reaped_by_the_next(start_worker, tmp_path, fleet, containers_of_task):
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="0", MUSTER_WARM_SANDBOXES="0")
    request = await fleet.submit_command("sleep 600")
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    assert len(containers_of_task(request.task_id)) == 1

    settings = WorkerSettings(state_dir=tmp_path / "state")
    async with DockerDriver(settings.state_dir, "the-next-worker") as driver:
        gone = await sweep(driver, settings)

    assert len(gone) == 1
    assert containers_of_task(request.task_id) == []
    assert list((settings.state_dir / "sandboxes").iterdir()) == []
    await fleet.transport.cancel(request.task_id, by="test", reason="done")


@pytest.mark.redis
@pytest.mark.docker
async def test_a_terminated_worker_gives_its_task_back_and_leaves_nothing(start_worker, fleet, containers_of_task):
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="0")
    request = await fleet.submit_command("sleep 600")
    [card] = await fleet.transport.workers()
    with urllib.request.urlopen(f"http://127.0.0.1:{card.metrics_port}/metrics") as page:
        shown = page.read().decode()
    worker.send_signal(signal.SIGTERM)
    _, stderr = await worker.communicate()

    assert 'muster_tasks_running{pool="build"} 1.0' in shown
    assert card.pid == worker.pid and "explore" in {agent.name for agent in card.agents}
    assert worker.returncode == 0, stderr.decode()
    assert all(json.loads(line)["level"] in ("info", "warning") for line in stderr.decode().splitlines())
    record = await fleet.transport.record(request.task_id)
    assert (record.state, record.lost_leases) == (State.PENDING, 0)
    assert containers_of_task(request.task_id) == []
    await fleet.transport.cancel(request.task_id, by="test", reason="done")


def test_an_owner_is_dead_when_its_lock_is_free(tmp_path: Path):
    with owned(tmp_path, "alive"):
        (tmp_path / "dead").touch()
        assert list(dead_owners(tmp_path)) == ["dead"]
        assert list(dead_owners(tmp_path, remembered_s=0)) == ["dead"]
        assert list(dead_owners(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    assert list(dead_owners(tmp_path / "absent")) == []


def test_a_dead_owner_is_remembered_because_an_engine_may_be_late(tmp_path: Path):
    (tmp_path / "dead").touch()

    assert list(dead_owners(tmp_path)) == ["dead"]
    assert list(dead_owners(tmp_path)) == ["dead"]


def test_whom_others_should_reap_first_is_only_noted(tmp_path: Path):
    (tmp_path / "dead").touch()

    assert list(dead_owners(tmp_path, dead_for_s=3600)) == []
    (tmp_path / "dead").write_text("0")
    assert list(dead_owners(tmp_path, dead_for_s=3600)) == ["dead"]


def test_an_owner_that_could_not_be_reaped_is_dead_another_time(tmp_path: Path):
    (tmp_path / "dead").write_text("0")
    with pytest.raises(RuntimeError):
        for _ in dead_owners(tmp_path):
            raise RuntimeError
    for name in dead_owners(tmp_path):
        find_again(tmp_path, name)

    assert list(dead_owners(tmp_path)) == ["dead"]
