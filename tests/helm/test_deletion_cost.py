"""The container beside a worker tells the cluster's API server how busy the worker is, and only when that changes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "helm" / "muster" / "files" / "deletion_cost.py"
POD = "/api/v1/namespaces/fleet/pods/trial-worker-build-x"
METRICS = """# TYPE muster_worker_slots gauge
muster_worker_slots{{pool="build",state="busy"}} {busy}
muster_worker_slots{{pool="build",state="free"}} 1.0
"""


class Cluster(ThreadingHTTPServer):
    """The API server, and the worker's /metrics, on one port."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.busy = 3.0
        self.looks: queue.Queue[float] = queue.Queue()  # each time that the metrics were read
        self.told: queue.Queue[tuple[str, dict[str, str], str]] = queue.Queue()


class Answers(BaseHTTPRequestHandler):
    server: Cluster

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(METRICS.format(busy=self.server.busy).encode())
        self.server.looks.put(self.server.busy)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.server.told.put((self.path, body["metadata"]["annotations"], self.headers["Authorization"]))

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "token").write_text("a-token")
    with Cluster() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        environment = {
            "METRICS": f"{url}/metrics", "API": url, "ACCOUNT": str(tmp_path), "NAMESPACE": "fleet",
            "POD": "trial-worker-build-x", "LOOK_EVERY_S": "0.01", "PATH": os.environ["PATH"],
        }  # fmt: skip
        beside = subprocess.Popen([sys.executable, "-I", "-S", SCRIPT], env=environment)
        yield server
        beside.terminate()
        assert beside.wait(timeout=60) is not None
        server.shutdown()


def test_it_tells_each_change_once(cluster: Cluster):
    path, annotations, authorization = cluster.told.get(timeout=60)
    assert path == POD
    assert annotations == {"controller.kubernetes.io/pod-deletion-cost": "3"}
    assert authorization == "Bearer a-token"
    for _ in range(5):
        cluster.looks.get(timeout=60)
    cluster.busy = 0.0

    _, annotations, _ = cluster.told.get(timeout=60)

    assert annotations == {"controller.kubernetes.io/pod-deletion-cost": "0"}
    assert cluster.told.empty()
