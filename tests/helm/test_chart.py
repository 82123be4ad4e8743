"""The chart lints, renders, refuses values that it does not know, and makes no pod that runs as root."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from lab.programs import TWO_WRITES, as_shipped, server_program

from transport import approvals
from transport.approvals import PRIVATE, PUBLIC
from transport.keyring import KEY_BYTES, load_or_create

CHART = Path(__file__).parent.parent.parent / "helm" / "muster"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or "helm"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, timeout=60)


@cache  # nobody changes what it returns
def rendered(*settings: str) -> list[dict[str, Any]]:
    words = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", "trial", str(CHART), *words)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pods(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
    ]


def names(documents: list[dict[str, Any]], kind: str) -> set[str]:
    return {document["metadata"]["name"] for document in documents if document["kind"] == kind}


def test_it_lints_strictly():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_it_has_an_orchestrator_three_pools_and_a_redis_for_trials():
    documents = rendered()
    assert names(documents, "Deployment") == {
        "trial-orchestrator", "trial-worker-explore", "trial-worker-general", "trial-worker-build",
    }  # fmt: skip
    assert names(documents, "StatefulSet") == {"trial-redis"}


def test_a_new_pool_is_values_alone():
    documents = rendered("pools.gpu.replicas=2", "pools.gpu.slots=1")
    assert "trial-worker-gpu" in names(documents, "Deployment")


def secret(documents: list[dict[str, Any]], name: str) -> dict[str, str]:
    (data,) = [d["data"] for d in documents if d["kind"] == "Secret" and d["metadata"]["name"] == name]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def environment(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each of our deployments gets: name → value, or where it comes from."""
    return {
        document["metadata"]["name"]: {
            entry["name"]: entry.get("value", entry.get("valueFrom"))
            for entry in document["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        for document in documents
        if document["kind"] == "Deployment"
    }


def test_an_external_redis_replaces_the_trial_one():
    documents = rendered("redis.existingSecret=redis-urls", "networkPolicy.redisNetworks={10.1.2.3/32}")
    assert names(documents, "StatefulSet") == set()
    assert "trial-redis" not in names(documents, "Secret")
    urls = {name: found["MUSTER_REDIS_URL"]["secretKeyRef"] for name, found in environment(documents).items()}
    assert urls.pop("trial-orchestrator") == {"name": "redis-urls", "key": "orchestrator-url"}
    assert list(urls.values()) == [{"name": "redis-urls", "key": "worker-url"}] * 3


def test_each_component_gets_the_url_of_its_own_role():
    documents = rendered("fleet=blue")
    kept = secret(documents, "trial-redis")
    for name, found in environment(documents).items():
        role = "orchestrator" if name == "trial-orchestrator" else "worker"
        reference = found["MUSTER_REDIS_URL"]["secretKeyRef"]
        assert kept[reference["key"]] == f"redis://muster-blue-{role}:{kept[f'{role}-password']}@trial-redis:6379/0"


def test_the_trial_redis_lets_in_the_roles_and_nobody_else():
    documents = rendered("fleet=blue")
    kept = secret(documents, "trial-redis")
    users = {line.split()[1]: line for line in kept["users.acl"].splitlines()}

    assert users.pop("default") == "user default off resetpass allkeys allchannels +@all"
    assert set(users) == {f"muster-blue-{role}" for role in ("orchestrator", "worker", "reader")}
    for name, line in users.items():
        password = kept[f"{name.removeprefix('muster-blue-')}-password"]
        assert f"#{hashlib.sha256(password.encode()).hexdigest()}" in line.split()
        assert password not in line
        assert "~{muster:blue:*" in line.split()
        assert not {"FLEET", "allkeys", "+@all", "nopass"} & set(line.split())


def test_the_trial_redis_mounts_the_users_and_no_password():
    (document,) = [d for d in rendered() if d["kind"] == "StatefulSet"]
    pod = document["spec"]["template"]["spec"]
    (users,) = [volume for volume in pod["volumes"] if volume["name"] == "users"]
    assert [item["key"] for item in users["secret"]["items"]] == ["users.acl"]
    (redis,) = pod["containers"]
    assert redis["args"][-2:] == ["--aclfile", "/etc/redis/users.acl"]
    (auth,) = redis["env"]  # for the probe: the weakest role's
    assert auth["valueFrom"]["secretKeyRef"]["key"] == "reader-password"


def test_another_role_file_restarts_the_trial_redis():
    (document,) = [d for d in rendered() if d["kind"] == "StatefulSet"]
    roles = hashlib.sha256((CHART / "files" / "users.acl").read_bytes()).hexdigest()
    assert document["spec"]["template"]["metadata"]["annotations"] == {"muster/roles": roles}


@pytest.mark.redis
def test_a_server_reads_the_rendered_users(tmp_path: Path):
    (tmp_path / "users.acl").write_text(secret(rendered(), "trial-redis")["users.acl"])
    program = shutil.which("redis-server") or Path(sys.executable).parent / "redis-server"
    words = [program, "--port", "0", "--unixsocket", tmp_path / "s", "--dir", tmp_path]
    with subprocess.Popen([*words, "--aclfile", tmp_path / "users.acl"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        said = next((line for line in server.stdout if "eady to accept" in line or "Aborting" in line), "it ended")
        server.terminate()
    assert "eady to accept" in said


@pytest.mark.redis
@pytest.mark.parametrize("name", ["redis-7.0", "valkey-9.1"])
def test_the_trial_redis_is_whole_when_it_was_killed(name: str, start_redis: Callable[..., Any], tmp_path: Path):
    documents = rendered()
    (document,) = [each for each in documents if each["kind"] == "StatefulSet"]
    (container,) = document["spec"]["template"]["spec"]["containers"]
    kept, users = secret(documents, "trial-redis"), tmp_path / "users.acl"
    users.write_text(kept["users.acl"])
    server = start_redis(*as_shipped(container["args"], users), program=server_program(name))

    with redis.Redis.from_url(kept["worker-url"].replace("trial-redis:6379", f"127.0.0.1:{server.port}")) as client:
        client.eval(TWO_WRITES, 2, "{muster:main:0}:a", "{muster:main:0}:b")
        server.kill()
        server.start()
        assert client.exists("{muster:main:0}:a", "{muster:main:0}:b") == 2


def test_the_keyring_of_the_chart_is_one_that_processes_can_read(tmp_path: Path):
    documents = rendered()
    (volume,) = [v for v in pods(documents)[0]["volumes"] if v["name"] == "keyring"]
    path = tmp_path / "keyring.json"
    path.write_text(secret(documents, "trial-keyring")["keyring.json"])
    path.chmod(volume["projected"]["defaultMode"])

    keys = load_or_create(path)

    key_id, mac = keys.sign(b"a task")
    keys.verify(b"a task", key_id, mac)
    (key,) = json.loads(path.read_text())["keys"].values()
    assert len(bytes.fromhex(key)) == KEY_BYTES


def mounted_keys(pod: dict[str, Any]) -> set[str]:
    (volume,) = [v for v in pod["volumes"] if v["name"] == "keyring"]
    return {item["path"] for source in volume["projected"]["sources"] for item in source["secret"]["items"]}


def redis_key(pod: dict[str, Any]) -> str:
    variables = [one for container in pod["containers"] for one in container.get("env", [])]
    [key] = {one["valueFrom"]["secretKeyRef"]["key"] for one in variables if one["name"] == "MUSTER_REDIS_URL"}
    return key


def test_what_the_chart_signs_with_is_in_no_workers_pod_and_verifies_there(tmp_path: Path):
    documents = rendered()
    kept = secret(documents, "trial-keyring")
    for role, held in (("worker", {"approval-keys.pub.json"}), ("orchestrator", {PRIVATE, PUBLIC})):
        (tmp_path / role).mkdir()
        for name in held:
            (tmp_path / role / name).write_text(kept[name])
            (tmp_path / role / name).chmod(0o440)
    people = approvals.at(tmp_path / "orchestrator" / "keyring.json", approves=True)
    worker = approvals.at(tmp_path / "worker" / "keyring.json", approves=False)

    worker.verify(b"a yes", *people.sign(b"a yes"))
    assert people.since_ms == worker.since_ms == 0
    assert not worker.can_sign
    held = [(redis_key(pod), mounted_keys(pod)) for pod in pods(documents) if "'keyring'" in str(pod["volumes"])]
    assert {key for key, _ in held} == {"orchestrator-url", "worker-url"}
    assert all((PRIVATE in names) == (key == "orchestrator-url") for key, names in held)
    assert all({"keyring.json", PUBLIC} <= names for _, names in held)


def test_the_authority_of_redis_is_mounted_where_the_urls_name_it():
    documents = rendered(
        "networkPolicy.redisNetworks={10.1.2.3/32}", "redis.existingSecret=redis-urls",
        "redis.tls.caSecret=redis-ca", "redis.tls.caKey=tls.crt",
    )  # fmt: skip
    for pod in pods(documents):
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "redis-ca"]
        assert volume["secret"]["items"] == [{"key": "tls.crt", "path": "ca.crt"}]
        (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "redis-ca"]
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/muster/redis", True)


def test_every_program_is_told_the_same_number_of_cells():
    found = environment(rendered("redis.cells=4"))
    assert {values["MUSTER_CELLS"] for values in found.values()} == {"4"}


def test_a_service_monitor_comes_on_request():
    assert names(rendered(), "ServiceMonitor") == set()
    assert names(rendered("metrics.serviceMonitor.enabled=true"), "ServiceMonitor") == {"trial"}


def test_only_workers_get_the_models_key():
    documents = rendered("model.name=openai/gpt-5", "model.secretName=key")
    holders = {
        document["metadata"]["name"]
        for document in documents
        if document["kind"] == "Deployment"
        and any(
            entry["name"] == "MUSTER_MODEL_API_KEY"
            for entry in document["spec"]["template"]["spec"]["containers"][0]["env"]
        )
    }
    assert holders == {"trial-worker-explore", "trial-worker-general", "trial-worker-build"}


@pytest.mark.parametrize(
    "wrong",
    [
        "pools.build.slot=3",
        "image.worker=",
        "image.repository=muster",
        "image.registry=r.example/no-slash-at-the-end",
        "sandbox.engine=unix:///var/run/docker.sock",
        "sandbox.address=unix:///var/run/docker.sock",
        "sandbox.engine=host",
        "autoscaling.kind=vpa",
        "pools.Build.slots=1",
        "networkPolicy.redisNetworks={everywhere}",
        "orchestrator.env.lower=1",
        "metrics.serviceMonitor.interval=often",
        "fleet=Not OK",
        "typo=1",
        "redis.cells=0",
        "redis.cells=65",
        "redis.secretKey=url",
        "redis.workerKey=",
    ],
)
def test_values_that_the_schema_does_not_know_are_refused(wrong: str):
    done = helm("template", "trial", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("autoscaling.kind=keda", "autoscaling.kind=keda needs autoscaling.prometheus"),
        ("autoscaling.kind=hpa,autoscaling.minReplicas=0", "minReplicas must be 1 or more"),
        ("autoscaling.kind=hpa,pools.build.minReplicas=11", "minReplicas 11 is more than maxReplicas 10"),
        ("redis.existingSecret=r", "needs networkPolicy.redisNetworks"),
        ("workers.podDeletionCost=true", "needs networkPolicy.apiServerNetworks"),
    ],
)
def test_values_that_do_not_go_together_are_refused(wrong: str, says: str):
    done = helm("template", "trial", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert says in done.stderr


def test_pods_of_a_pool_are_its_demand_over_its_slots():
    documents = rendered("autoscaling.kind=keda", "autoscaling.prometheus=http://p:9090", "pools.build.maxReplicas=3")
    (scaled,) = [
        d["spec"] for d in documents if d["metadata"]["name"] == "trial-worker-build" and "Scaled" in d["kind"]
    ]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 3)
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["query"] == 'max(muster_queue_demand{pool="build",namespace="default"})'
    assert trigger["metadata"]["threshold"] == "4"
    workers = [d["spec"] for d in documents if d["kind"] == "Deployment" and "worker" in d["metadata"]["name"]]
    assert not any("replicas" in spec for spec in workers)  # else every upgrade would undo what was scaled


def test_other_settings_are_other_pods():
    def checksums(*settings: str) -> set[str]:
        found = [d for d in rendered(*settings) if d["kind"] == "Deployment"]
        return {one["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for one in found}

    assert len(checksums()) == len(checksums("config=titles = false")) == 1
    assert checksums() != checksums("config=titles = false")


def test_an_agent_of_ones_own_stands_where_a_worker_looks():
    documents = rendered(r"workers.agents.trainer\.md=text")
    (pod, *_) = [pod for pod in pods(documents) if pod["containers"][0]["name"] == "worker"]
    variables = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    (config,) = [volume["configMap"] for volume in pod["volumes"] if volume["name"] == "config"]
    (folder,) = [m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == "config"]
    assert variables["MUSTER_CONFIG"] == f"{folder}/config.toml"
    assert {"key": "trainer.md", "path": "agents/trainer.md"} in config["items"]


@pytest.mark.parametrize(("engine", "user"), [("rootless", 1000), ("privileged", 0)])
def test_an_engine_beside_a_worker_is_its_own_and_starts_before_it(engine: str, user: int):
    documents = rendered(f"sandbox.engine={engine}")
    workers = [pod for pod in pods(documents) if pod["containers"][0]["name"] == "worker"]
    for pod in workers:
        beside, image = pod["initContainers"]
        assert (beside["restartPolicy"], beside["securityContext"]["runAsUser"]) == ("Always", user)
        assert image["command"] == ["docker", "pull", "muster-sandbox:latest"]
        variables = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
        assert variables["DOCKER_HOST"] == "unix:///run/engine/docker.sock"
        (socket,) = [volume for volume in pod["volumes"] if volume["name"] == "engine"]
        assert socket["emptyDir"] == {}


def test_the_table_of_values_in_the_readme_is_the_charts():
    done = subprocess.run([sys.executable, CHART.parent.parent / "scripts" / "chart_readme.py", "--check"])
    assert done.returncode == 0


def test_every_value_says_what_it_is():
    """But for the pools, whose keys the comment above them names."""
    table = (CHART / "README.md").read_text()

    def leaves(values: dict[str, Any], above: str = "") -> list[str]:
        found: list[str] = []
        for key, value in values.items():
            path = f"{above}{key}"
            told = f"| `{path}` |" in table
            found += [] if told else leaves(value, f"{path}.") if isinstance(value, dict) and value else [path]
        return found

    assert leaves(yaml.safe_load((CHART / "values.yaml").read_text())) == []
