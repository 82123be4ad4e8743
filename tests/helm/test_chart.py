"""The chart lints, renders, refuses values that it does not know, and makes no pod that runs as root."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parent.parent.parent / "helm" / "muster"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or "helm"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *words], capture_output=True, text=True, timeout=60)


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


def test_an_external_redis_replaces_the_trial_one():
    documents = rendered("redis.existingSecret=redis-url")
    assert names(documents, "StatefulSet") == set()
    for pod in pods(documents):
        (url,) = [entry for entry in pod["containers"][0]["env"] if entry["name"] == "MUSTER_REDIS_URL"]
        assert url["valueFrom"]["secretKeyRef"]["name"] == "redis-url"


def test_a_service_monitor_comes_on_request():
    assert names(rendered(), "ServiceMonitor") == set()
    assert names(rendered("metrics.serviceMonitor.enabled=true"), "ServiceMonitor") == {"trial"}


def test_no_pod_runs_as_root_or_mounts_the_nodes_engine():
    found = pods(rendered("sandbox.engine=tcp://engine:2376", "sandbox.tlsSecret=engine-tls"))
    assert len(found) == 5
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert not any("hostPath" in volume for volume in pod.get("volumes", []))
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


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
    ["pools.build.slot=3", "image.repository=", "sandbox.engine=unix:///var/run/docker.sock", "fleet=Not OK", "typo=1"],
)
def test_values_that_the_schema_does_not_know_are_refused(wrong: str):
    done = helm("template", "trial", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert "don't meet the specifications of the schema" in done.stderr
