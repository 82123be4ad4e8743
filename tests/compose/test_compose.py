"""compose.yaml is what Compose takes, its secrets what the programs take, and nothing of this machine is given away."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from lab.programs import TWO_WRITES, as_shipped, server_program

from transport import approvals
from transport.approvals import PRIVATE, PUBLIC
from transport.keyring import load_or_create

ROOT = Path(__file__).parent.parent.parent
OURS = ("orchestrator", "serve", "explore", "general", "build")


def set_up(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "MUSTER_NO_IMAGE": "1"}
    return subprocess.run([folder / "compose" / "setup.sh"], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a user has, set up."""
    copy = tmp_path_factory.mktemp("machine")
    shutil.copytree(ROOT / "compose", copy / "compose", ignore=shutil.ignore_patterns("secrets", ".env"))
    shutil.copytree(ROOT / "helm", copy / "helm")
    done = set_up(copy)
    assert done.returncode == 0, done.stderr
    return copy


@pytest.fixture(scope="module")
def services(folder: Path) -> dict[str, dict[str, Any]]:
    """As Compose reads the file, anchors and variables resolved."""
    words = ["docker-compose", "config"]
    done = subprocess.run(words, cwd=folder / "compose", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_the_engine_without_root_is_a_second_file(folder: Path):
    words = ["docker-compose", "--file", "compose.yaml", "--file", "compose.rootless.yaml", "config"]
    done = subprocess.run(words, cwd=folder / "compose", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["services"]["engine"]["user"] == "rootless"


def test_without_secrets_it_says_what_to_do(tmp_path: Path):
    shutil.copy(ROOT / "compose" / "compose.yaml", tmp_path)
    done = subprocess.run(["docker-compose", "config"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "run ./setup.sh first" in done.stderr


def test_three_pools_an_orchestrator_and_the_api_have_no_rights(services: dict[str, dict[str, Any]]):
    for name in OURS:
        service = services[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_nobody_has_this_machines_engine_and_only_the_own_one_is_privileged(services: dict[str, dict[str, Any]]):
    assert {name for name, service in services.items() if service.get("privileged")} == {"engine"}
    mounted = [str(volume) for service in services.values() for volume in service.get("volumes", [])]
    assert not any("docker.sock" in volume for volume in mounted)
    assert services["engine"]["networks"].keys() == {"fleet"}  # which is internal: no way out


def test_what_listens_listens_on_this_machine_alone(services: dict[str, dict[str, Any]]):
    ports = [str(port) for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all("127.0.0.1" in port for port in ports)


def test_no_secret_is_a_variable_or_readable_by_others(folder: Path, services: dict[str, dict[str, Any]]):
    secrets = folder / "compose" / "secrets"
    passwords = [file.read_text() for file in secrets.glob("*.password")]
    assert len(passwords) == 4
    assert not [word for word in passwords if word in yaml.safe_dump(services)]
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets.iterdir()} == {0o440}
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


def test_a_worker_never_gets_the_orchestrators_settings(services: dict[str, dict[str, Any]]):
    given = {name: {secret["source"] for secret in services[name]["secrets"]} for name in OURS}
    assert given["orchestrator"] == given["serve"] == {"keyring.json", PRIVATE, PUBLIC, "orchestrator.toml"}
    assert given["explore"] == given["general"] == given["build"] == {"keyring.json", PUBLIC, "worker.toml"}


def test_setting_up_again_keeps_what_is_there(folder: Path):
    secrets = folder / "compose" / "secrets"
    before = {file.name: file.read_bytes() for file in secrets.iterdir()}
    assert set_up(folder).returncode == 0
    assert {file.name: file.read_bytes() for file in secrets.iterdir()} == before


def test_what_answers_are_signed_with_is_verified_by_what_workers_get(folder: Path, tmp_path: Path):
    secrets = folder / "compose" / "secrets"
    shutil.copy(secrets / PUBLIC, tmp_path)
    people = approvals.at(secrets / "keyring.json", approves=True)
    worker = approvals.at(tmp_path / "keyring.json", approves=False)

    worker.verify(b"a yes", *people.sign(b"a yes"))
    assert (people.since_ms, worker.can_sign) == (0, False)


def test_the_keyring_is_one(folder: Path):
    keys = load_or_create(folder / "compose" / "secrets" / "keyring.json")
    key_id, mac = keys.sign(b"a task")
    keys.verify(b"a task", key_id, mac)


@pytest.mark.redis
def test_redis_lets_each_role_in_by_its_settings(folder: Path, start_redis: Callable[..., Any]):
    secrets = folder / "compose" / "secrets"
    assert "user default off resetpass allkeys allchannels +@all\n" in (secrets / "users.acl").read_text()
    server = start_redis("--aclfile", str(secrets / "users.acl"))
    for role in ("orchestrator", "worker"):
        url = tomllib.loads((secrets / f"{role}.toml").read_text())["redis_url"].replace(
            "@redis:6379", f"@127.0.0.1:{server.port}"
        )
        asked = subprocess.run(["redis-cli", "-u", url, "ping"], capture_output=True, text=True)
        assert "PONG" in asked.stdout, asked.stdout
    refused = subprocess.run(["redis-cli", "-p", str(server.port), "ping"], capture_output=True, text=True)
    assert "NOAUTH" in refused.stdout


@pytest.mark.redis
@pytest.mark.parametrize("name", ["redis-7.0", "valkey-9.1"])
def test_its_redis_is_whole_when_it_was_killed(
    name: str, folder: Path, services: dict[str, dict[str, Any]], start_redis: Callable[..., Any]
):
    secrets = folder / "compose" / "secrets"
    server = start_redis(
        *as_shipped(services["redis"]["command"].split(), secrets / "users.acl"), program=server_program(name)
    )
    url = tomllib.loads((secrets / "worker.toml").read_text())["redis_url"]

    with redis.Redis.from_url(url.replace("redis:6379", f"127.0.0.1:{server.port}")) as client:
        client.eval(TWO_WRITES, 2, "{muster:main:0}:a", "{muster:main:0}:b")
        server.kill()
        server.start()
        assert client.exists("{muster:main:0}:a", "{muster:main:0}:b") == 2


def test_prometheus_reads_its_configuration(folder: Path):
    """The path of the rules is the container's: here it is the copy's."""
    configuration = folder / "prometheus.yml"
    text = (folder / "compose" / "prometheus.yml").read_text()
    configuration.write_text(text.replace("/etc/prometheus/rules", str(folder / "helm" / "muster" / "rules")))
    done = subprocess.run(["promtool", "check", "config", configuration], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
