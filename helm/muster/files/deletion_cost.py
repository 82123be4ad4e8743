"""Tell the cluster how busy the worker in this pod is, so that an idle one goes first when a pool gets smaller.

Reads the worker's /metrics on loopback and writes the annotation `controller.kubernetes.io/pod-deletion-cost` of its
own pod when that changed. Runs beside the worker, which so needs no token of the cluster's. Standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
API = os.environ.get("API", "https://kubernetes.default.svc")
METRICS = os.environ["METRICS"]
LOOK_EVERY_S = float(os.environ.get("LOOK_EVERY_S", "10"))
TIMEOUT_S = 5.0
BUSY = re.compile(r'^muster_worker_slots\{[^}]*state="busy"[^}]*\} ([0-9.e+]+)$', re.MULTILINE)


def busy_slots() -> int:
    with urllib.request.urlopen(METRICS, timeout=TIMEOUT_S) as answer:
        return int(sum(map(float, BUSY.findall(answer.read().decode()))))


def annotate(cost: int) -> None:
    pod = f"{API}/api/v1/namespaces/{os.environ['NAMESPACE']}/pods/{os.environ['POD']}"
    change = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": str(cost)}}}
    headers = {
        "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",  # read each time: it is renewed
        "Content-Type": "application/merge-patch+json",
    }
    request = urllib.request.Request(pod, json.dumps(change).encode(), headers, method="PATCH")
    authority = ACCOUNT / "ca.crt"
    trust = ssl.create_default_context(cafile=authority) if authority.exists() else None
    urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trust).close()


def main() -> None:
    told = None
    while True:
        try:
            if (busy := busy_slots()) != told:
                annotate(busy)
                told = busy
        except (OSError, urllib.error.URLError) as e:  # the worker starts, or the cluster's server does
            print(f"deletion cost: {e}", file=sys.stderr, flush=True)
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    main()
