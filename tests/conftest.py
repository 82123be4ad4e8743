"""Tiers: a test that needs a server says so by its marker. At a desk without that server it is skipped with a reason;
under MUSTER_TEST_STRICT=1 (CI, `make test`) it fails, so that a green run has run everything."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    if tier == "redis":
        beside = Path(sys.executable).parent
        return "" if shutil.which("redis-server") or (beside / "redis-server").exists() else "no redis-server"
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for tier in ("docker", "redis"):
        if item.get_closest_marker(tier) and (reason := missing(tier)):
            if STRICT:
                pytest.fail(f"the {tier} tier cannot run: {reason}", pytrace=False)
            pytest.skip(reason)
