"""The images of orchestrator and workers are run: what is in them, as whom, and that they drain when stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.docker
SOCKET = Path(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"))
CONFINED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
IMAGES = ("orchestrator", "worker")
FOUND = "import sys, importlib.util as u; print(*(u.find_spec(name) is not None for name in sys.argv[1:]))"


@pytest.fixture(scope="module")
def ids() -> dict[str, str]:
    """Each image's id. `make test` has built them; what was changed since is built here."""
    said = subprocess.check_output([sys.executable, ROOT / "scripts" / "images.py"], text=True, cwd=ROOT)
    named = dict(line.split() for line in said.splitlines())
    return {image: next(value for name, value in named.items() if f"-{image}:" in name) for image in IMAGES}


def run(image: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    words = ("docker", "run", "--rm", "--network", "none", *CONFINED, *options, "--entrypoint", command[0])
    return subprocess.run([*words, image, *command[1:]], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("image", IMAGES)
def test_it_says_what_it_is(ids: dict[str, str], image: str):
    (found,) = json.loads(subprocess.check_output(["docker", "image", "inspect", ids[image]]))
    config: dict[str, Any] = found["Config"]
    assert config["User"] == "10001:10001"
    assert "PYTHONSAFEPATH=1" in config["Env"]
    assert "/healthz" in config["Healthcheck"]["Test"][-1]
    labels = config["Labels"]
    assert labels["org.opencontainers.image.title"] == f"muster-{image}"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.base.name"]


@pytest.mark.parametrize("image", IMAGES)
def test_it_stands_on_the_base_of_sandboxes(ids: dict[str, str], image: str):
    layers = [
        json.loads(subprocess.check_output(["docker", "image", "inspect", "--format", "{{json .RootFS.Layers}}", one]))
        for one in (ids[image], "muster-sandbox:latest")
    ]
    assert layers[0][0] == layers[1][0]


@pytest.mark.parametrize("image", IMAGES)
def test_it_has_its_programs_and_nothing_that_builds_others(ids: dict[str, str], image: str, tmp_path: Path):
    """One container for all looks: a start costs more than they do."""
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "__init__.py").write_text("raise SystemExit('a checkout shadows Muster')")
    tmp_path.chmod(0o755)
    looks = {
        "version": "muster --version",
        "worker": "muster-worker --help | head -1 | cut -d ' ' -f 1,2",
        "user": "id -u",
        "root": "touch /x 2>/dev/null || echo read-only",
        "tools": "command -v gcc cc make pip pip3 curl; echo none",
        "libraries": f"python -c '{FOUND}' litellm pip",
        "git": "git --version | cut -d ' ' -f 1",
    }
    script = "; ".join(f'echo "{name}=$({look})"' for name, look in looks.items())
    done = run(ids[image], "sh", "-c", script, options=("--volume", f"{tmp_path}:/work:ro", "--workdir", "/work"))
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == {
        "version": "muster 0.1.0",
        "worker": "Usage: muster-worker",
        "user": "10001",
        "root": "read-only",
        "tools": "none",
        "libraries": f"{image == 'worker'} False",
        "git": "git",
    }, done.stderr


@pytest.mark.parametrize(("image", "module"), [("orchestrator", "orchestrator.api.app"), ("worker", "workers.service")])
def test_all_that_its_program_imports_was_kept(ids: dict[str, str], image: str, module: str):
    done = run(ids[image], "python", "-c", f"import orchestrator.service, {module}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("image", "has", "has_not"),
    [("orchestrator", "fastapi", "litellm"), ("worker", "litellm", "hatchling"), ("sandbox", "pytest", "muster")],
)
def test_its_bill_of_materials_is_valid_and_right(ids: dict[str, str], image: str, has: str, has_not: str):
    ids = {**ids, "sandbox": "muster-sandbox:latest"}
    text = (ROOT / "build" / "images" / f"muster-{image}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    purls = [component["purl"] for component in json.loads(text)["components"]]
    kinds = {purl.split("@")[0] for purl in purls}
    assert len(set(purls)) == len(purls)
    assert f"pkg:pypi/{has}" in kinds
    assert f"pkg:pypi/{has_not}" not in kinds
    # every package of Debian's, with its version, as dpkg tells it
    installed = run(
        ids[image], "dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"
    ).stdout
    assert {purl for purl in purls if purl.startswith("pkg:deb/")} == {
        f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={machine}&distro=bookworm"
        for name, version, machine in map(str.split, installed.splitlines())
    }
    assert {"pkg:deb/debian/git", "pkg:deb/debian/python3.11"} <= kinds


@contextmanager
def started(image: str, *words: str, environment: dict[str, str], until: str) -> Iterator[str]:
    """The name of a container whose log has said `until`; it is removed, however it ended."""
    name = f"test-image-{uuid.uuid4().hex}"
    variables = [word for key, value in environment.items() for word in ("--env", f"{key}={value}")]
    try:
        socket = ("--volume", f"{SOCKET}:/run/engine.sock", "--group-add", str(SOCKET.stat().st_gid))
        options = ("--network", "host", "--tmpfs", "/var/lib/muster:uid=10001,mode=700", *socket, *variables)
        subprocess.check_output(["docker", "run", "--detach", "--name", name, *CONFINED, *options, image, *words])
        with subprocess.Popen(
            ["docker", "logs", "--follow", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as logs:
            assert logs.stdout
            said = ""
            for line in logs.stdout:
                said += line
                if until in line:
                    break
            logs.terminate()
        assert until in said, said
        yield name
    finally:
        subprocess.check_output(["docker", "rm", "--force", name])


def looked_at(name: str) -> int:
    """The exit code of the image's own health check, asked now and not in 30 s."""
    template = "{{json .Config.Healthcheck.Test}}"
    _, *check = json.loads(subprocess.check_output(["docker", "inspect", "--format", template, name]))
    return subprocess.run(["docker", "exec", name, *check], timeout=60).returncode


@pytest.mark.redis
@pytest.mark.parametrize(
    ("image", "words", "begins", "ends"),
    [
        ("orchestrator", (), "orchestrator_started", "orchestrator_drained"),
        ("worker", ("explore",), "worker_started", "worker_stopped"),
    ],
)
def test_it_serves_a_fleet_and_drains_when_it_is_stopped(
    ids: dict[str, str],
    start_redis: Callable[..., Any],
    image: str,
    words: tuple[str, ...],
    begins: str,
    ends: str,
    port: int,
):
    server = start_redis("--maxmemory-policy", "noeviction", "--appendonly", "no")
    environment = {
        "MUSTER_REDIS_URL": f"redis://127.0.0.1:{server.port}/0",
        "MUSTER_METRICS_HOST": "127.0.0.1",
        "MUSTER_METRICS_PORT": str(port),
        "DOCKER_HOST": "unix:///run/engine.sock",
    }
    with started(ids[image], *words, environment=environment, until=begins) as name:
        assert looked_at(name) == 0
        subprocess.check_output(["docker", "stop", "--time", "60", name])
        state = json.loads(subprocess.check_output(["docker", "inspect", "--format", "{{json .State}}", name]))
        assert state["ExitCode"] == 0
        assert ends in subprocess.run(["docker", "logs", name], capture_output=True, text=True).stderr
