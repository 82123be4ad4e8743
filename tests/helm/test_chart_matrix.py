"""Every pair of the chart's features together renders, and what it renders is what Kubernetes takes."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

CHART = Path(__file__).parent.parent.parent / "helm" / "muster"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or "helm"
VERSIONS = ("1.29", "1.33", "1.37")
SCHEMAS = {
    path.stem: Draft7Validator(json.loads(path.read_text())) for path in CHART.glob("../../tests/helm/schemas/*")
}

# feature → its ways, each as values of the chart
FEATURES: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "engine": {
        "none": {},
        "tls": {
            "sandbox": {"address": "tcp://e:2376", "tlsSecret": "e"},
            "networkPolicy": {"engineNetworks": ["10.9.0.0/16"]},
        },
        "rootless": {"sandbox": {"engine": "rootless", "beside": {"pullSecret": "registry"}}},
        "privileged": {"sandbox": {"engine": "privileged", "runtime": "runsc", "beside": {"runtimeClassName": "kata"}}},
    },
    "scaling": {
        "none": {},
        "hpa": {"autoscaling": {"kind": "hpa"}, "pools": {"build": {"maxReplicas": 40}}},
        "keda": {
            "autoscaling": {"kind": "keda", "prometheus": "http://p:9090", "minReplicas": 0},
            "pools": {"explore": {"minReplicas": 2}},
        },
    },
    "redis": {
        "trial": {},
        "tls": {
            "redis": {"existingSecret": "r", "cells": 4, "tls": {"caSecret": "ca"}},
            "networkPolicy": {"redisNetworks": ["10.1.0.0/24", "fd00::/8"]},
        },
    },
    "network": {
        "closed": {},
        "named": {
            "networkPolicy": {
                "metricsFrom": [{"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}],
                "apiFrom": [{"namespaceSelector": {"matchLabels": {"role": "ingress"}}}],
                "dns": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
                "workerEgress": [{"to": [{"namespaceSelector": {}}], "ports": [{"port": 8000}]}],
            }
        },
        "open": {"networkPolicy": {"enabled": False}},
    },
    "api": {
        "off": {},
        "on": {"api": {"enabled": True, "replicas": 2}},
        "secret": {"api": {"enabled": True, "tokensSecret": "t"}},
    },
    "watched": {
        "off": {},
        "on": {
            "metrics": {
                "serviceMonitor": {"enabled": True, "labels": {"release": "prom"}},
                "rules": {"enabled": True, "labels": {"release": "prom"}},
                "dashboards": {"enabled": True},
            }
        },
    },
    "cost": {"off": {}, "on": {
            "workers": {"podDeletionCost": True},
            "networkPolicy": {"apiServerNetworks": ["10.96.0.1/32"]},
        }},
    "spread": {"on": {}, "off": {"workers": {"topologySpread": False, "podDisruptionBudget": {"enabled": False}}}},
    "secrets": {
        "made": {},
        "given": {
            "keyring": {"existingSecret": "k"},
            "imagePullSecrets": ["pull"],
            "model": {"name": "m/x", "secretName": "m"},
        },
    },
    "place": {
        "any": {},
        "chosen": {
            "priorityClasses": {"high": 1000},
            "orchestrator": {
                "priorityClassName": "trial-high",
                "nodeSelector": {"disk": "ssd"},
                "env": {"MUSTER_LEASE_S": 20},
            },
            "pools": {"build": {"priorityClassName": "x", "tolerations": [{"key": "build", "operator": "Exists"}]}},
        },
    },
    "own": {
        "none": {},
        "pool": {
            "pools": {"gpu": {"replicas": 0, "slots": 1, "env": {"MUSTER_WARM_SANDBOXES": 1}}},
            "workers": {"agents": {"trainer.md": "---\npool: gpu\n---\nTrain."}},
            "config": "titles = false\n",
            "image": {"registry": "r.example/t/", "worker": "muster-worker@sha256:" + "0" * 64},
        },
    },
}  # fmt: skip
Row = tuple[tuple[str, str], ...]


def pairwise() -> Iterator[Row]:
    """Rows of ways, one of each feature, in which every two ways of two features meet at least once."""
    ways = [[(feature, way) for way in FEATURES[feature]] for feature in FEATURES]
    left = {pair for one, two in itertools.combinations(ways, 2) for pair in itertools.product(one, two)}
    while left:
        row = list(min(left))
        for options in ways:
            if options[0][0] not in {feature for feature, _ in row}:
                row.append(max(options, key=lambda way: sum(tuple(_ordered(way, had)) in left for had in row)))
        row.sort(key=lambda way: list(FEATURES).index(way[0]))
        left -= set(itertools.combinations(row, 2))
        yield tuple(row)


def _ordered(*ways: tuple[str, str]) -> list[tuple[str, str]]:
    return sorted(ways, key=lambda way: list(FEATURES).index(way[0]))


def merged(one: Any, two: Any) -> Any:
    if isinstance(one, dict) and isinstance(two, dict):
        return {
            key: merged(one[key], two[key]) if key in one and key in two else one.get(key, two.get(key))
            for key in one | two
        }
    return two


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart, with one rule and one dashboard more, whose own braces must stay."""
    copy = tmp_path_factory.mktemp("chart") / "muster"
    shutil.copytree(CHART, copy)
    (copy / "rules").mkdir(exist_ok=True)
    (copy / "dashboards").mkdir(exist_ok=True)
    rule = {"alert": "Sample", "expr": "up == 0", "for": "5m", "annotations": {"summary": "{{ $labels.pod }} is away"}}
    (copy / "rules" / "sample_rule.yaml").write_text(yaml.safe_dump({"groups": [{"name": "sample", "rules": [rule]}]}))
    (copy / "dashboards" / "sample_board.json").write_text('{"uid": "sample", "title": "{{ pool }}"}')
    return copy


def rendered(chart: Path, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [HELM, "template", "trial", chart, "--namespace", "fleet", "--values", "-"],
        input=yaml.safe_dump(values), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.fixture(scope="module")
def matrix(chart: Path) -> dict[Row, list[dict[str, Any]]]:
    def values(row: Row) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for feature, way in row:
            found = merged(found, FEATURES[feature][way])
        return found

    return {row: rendered(chart, values(row)) for row in pairwise()}


@pytest.fixture(scope="module")
def documents(matrix: dict[Row, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each that is like no other, of all rows."""
    return [json.loads(text) for text in {json.dumps(one, sort_keys=True) for row in matrix.values() for one in row}]


def pod_of(document: dict[str, Any]) -> dict[str, Any] | None:
    if document["kind"] == "Pod":
        return document["spec"]
    return document["spec"]["template"]["spec"] if document["kind"] in ("Deployment", "StatefulSet") else None


def test_every_two_ways_meet(matrix: dict[Row, list[dict[str, Any]]]):
    met = {frozenset(pair) for row in matrix for pair in itertools.combinations(row, 2)}
    every = [(feature, way) for feature in FEATURES for way in FEATURES[feature]]
    assert {frozenset(pair) for pair in itertools.combinations(every, 2) if pair[0][0] != pair[1][0]} <= met


@cache
def _known(kind: str, text: str, version: str) -> str:
    """What Kubernetes of this version says of a document; nothing when it takes it."""
    try:
        kubernetes_validate.validate(json.loads(text), version, strict=True)
    except kubernetes_validate.ValidationError as fault:
        return f"{kind}: {'.'.join(map(str, fault.path))}: {fault.message}"
    return ""


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_document(documents: list[dict[str, Any]], version: str):
    own = [one for one in documents if one["kind"] not in SCHEMAS]
    assert {one["kind"] for one in own} >= {"Deployment", "NetworkPolicy", "HorizontalPodAutoscaler", "Role", "Secret"}
    assert {said for one in own if (said := _known(one["kind"], json.dumps(_shape(one)), version))} == set()


def _shape(document: dict[str, Any]) -> dict[str, Any]:
    """Without what changes from row to row and has no shape: random passwords, file contents."""
    return document | {"data": {}} if document["kind"] in ("Secret", "ConfigMap") else document


def test_the_operators_take_their_own_kinds(documents: list[dict[str, Any]]):
    custom = [one for one in documents if one["kind"] in SCHEMAS]
    assert {one["kind"] for one in custom} == {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
    faults = [fault.message for one in custom for fault in SCHEMAS[one["kind"]].iter_errors(one)]
    assert faults == []


def test_names_are_unique_in_every_row(matrix: dict[Row, list[dict[str, Any]]]):
    for row, found in matrix.items():
        names = [(one["kind"], one["metadata"]["name"]) for one in found]
        assert len(names) == len(set(names)), row


def test_no_container_of_ours_has_rights_whatever_is_switched_on(documents: list[dict[str, Any]]):
    pods = [pod for one in documents if (pod := pod_of(one))]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not any("hostPath" in volume for volume in pod["volumes"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for container in (*pod["containers"], *pod.get("initContainers", [])):
            assert container["resources"]["limits"]["memory"]
            if container["name"] == "engine":
                continue
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip


def test_only_the_container_that_tells_the_cost_has_a_token(documents: list[dict[str, Any]]):
    holders = {
        container["name"]
        for one in documents
        if (pod := pod_of(one))
        for container in (*pod["containers"], *pod.get("initContainers", []))
        if any("serviceaccount" in mount["mountPath"] for mount in container.get("volumeMounts", []))
    }
    assert holders == {"deletion-cost"}


def test_a_pod_has_longer_than_its_drain(documents: list[dict[str, Any]]):
    for one in documents:
        if "worker" in (labels := one["metadata"]["labels"])["app.kubernetes.io/component"] and (pod := pod_of(one)):
            drains = [e["value"] for e in pod["containers"][0]["env"] if e["name"] == "MUSTER_DRAIN_GRACE_S"]
            assert pod["terminationGracePeriodSeconds"] > int(drains[0]), labels


def test_what_is_mounted_is_a_volume_and_what_is_a_volume_is_mounted(documents: list[dict[str, Any]]):
    for one in documents:
        if pod := pod_of(one):
            claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
            mounted = {
                mount["name"]
                for container in (*pod["containers"], *pod.get("initContainers", []))
                for mount in container["volumeMounts"]
            }
            assert mounted == {volume["name"] for volume in pod["volumes"]} | claims, one["metadata"]["name"]


def test_every_pod_is_denied_what_no_policy_opens(matrix: dict[Row, list[dict[str, Any]]]):
    for row, found in matrix.items():
        denies = [one for one in found if one["metadata"]["name"] == "trial-deny"]
        assert bool(denies) == (("network", "open") not in row)
        for deny in denies:
            assert deny["spec"] == {
                "podSelector": {
                    "matchLabels": {"app.kubernetes.io/name": "muster", "app.kubernetes.io/instance": "trial"}
                },
                "policyTypes": ["Ingress", "Egress"],
            }


def test_rules_and_dashboards_keep_their_braces(documents: list[dict[str, Any]]):
    (rule,) = [one for one in documents if one["metadata"]["name"] == "trial-sample-rule"]
    assert rule["spec"]["groups"][0]["rules"][0]["annotations"]["summary"] == "{{ $labels.pod }} is away"
    (board,) = [one for one in documents if one["metadata"]["name"] == "trial-dashboard-sample-board"]
    assert board["data"] == {"sample_board.json": '{"uid": "sample", "title": "{{ pool }}"}'}
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
