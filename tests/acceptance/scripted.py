"""The shipped model server, as a process on loopback, for tests that meet Muster from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from shell import ROOT

CANARY = "canary-7f3a9c51e8d24b60"  # the key that workers send; tests look for it where it must not be


@contextlib.contextmanager
def scripted_model(script: Path) -> Iterator[dict[str, str]]:
    """The shipped model server on loopback; the environment that points workers at it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "workers.llm.scripted_server", "--script", str(script), "--port", "0"],
        stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        prices = json.dumps({"openai/scripted": {"input": 1_000_000, "output": 5_000_000}})
        yield {
            "MUSTER_MODEL": "openai/scripted", "MUSTER_MODEL_BASE_URL": f"{url}/v1",
            "MUSTER_MODEL_API_KEY": CANARY, "MUSTER_PRICES": prices, "MUSTER_TITLES": "false",
        }  # fmt: skip
    finally:
        server.terminate()
        server.wait()
