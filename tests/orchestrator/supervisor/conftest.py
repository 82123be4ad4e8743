"""A fleet of its own for each test: state folder, sockets and environment are a temporary folder's."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator

import pytest

from orchestrator.settings import Settings
from orchestrator.supervisor.attach import stop_fleet

POOLS = {"build": 1}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    # Not pytest's own folder: its path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        for name in [name for name in os.environ if name.startswith(("MUSTER_", "XDG_"))]:
            monkeypatch.delenv(name)
        own = {"HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run", "MUSTER_STATE_DIR": f"{folder}/state"}
        for name, value in {**own, "MUSTER_POOLS": json.dumps(POOLS), "PYTHONSAFEPATH": "1"}.items():
            monkeypatch.setenv(name, value)
        os.mkdir(f"{folder}/run", mode=0o700)
        settings = Settings()
        yield settings
        asyncio.run(stop_fleet(settings))
