"""A fleet of this machine with a loopback model, for all tests of the editor's door; each has its own repository."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

HERE = Path(__file__).parent
_numbers = itertools.count()
WINDOW_TOKENS = 100_000


def _module(name: str) -> ModuleType:
    """A file beside this one, for tests to import as `acp_NAME`."""
    spec = importlib.util.spec_from_file_location(f"acp_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"acp_{name}"] = module
    spec.loader.exec_module(module)
    return module


kit = _module("editor")
_module("drawing")


@dataclass(frozen=True)
class Desk:
    """Somebody's machine: where they work, and what their editor starts its agent with."""

    home: Path
    environment: dict[str, str]
    model: str  # its address

    async def requests(self) -> dict[str, Any]:
        """What the model has been asked so far."""
        async with aiohttp.ClientSession() as client, client.get(f"{self.model}/requests") as reply:
            return await reply.json()

    def muster(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator.cli.main", *words]
        return subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=120)

    def repository(self, files: dict[str, str]) -> Path:
        root = self.home / f"project-{next(_numbers)}"
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
            kit.git(root, *words)
        return root

    def editing(self, *words: str, forms: bool = False) -> AbstractAsyncContextManager:
        return kit.editing(self.environment, self.home, *words, forms=forms)


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """The address of the shipped model server, which plays `model.yaml`."""
    command = [sys.executable, "-m", "workers.llm.scripted_server", "--script", HERE / "model.yaml", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    yield json.loads(server.stdout.readline())["url"]
    server.terminate()
    server.wait()


@contextmanager
def a_desk(model: str, **more: str) -> Iterator[Desk]:
    """With a fleet of its own; `more` in its environment."""
    # not pytest's own folder: its path may be too long for a socket
    with tempfile.TemporaryDirectory(prefix="acp-") as folder:
        ours = ("MUSTER_", "XDG_", "GIT_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        own = {
            "HOME": folder,
            "XDG_RUNTIME_DIR": f"{folder}/run",
            "MUSTER_STATE_DIR": f"{folder}/state",
            "MUSTER_CONFIG": f"{folder}/none.toml",
            "MUSTER_MODEL": "openai/scripted",
            "MUSTER_MODEL_BASE_URL": f"{model}/v1",
            "MUSTER_MODEL_API_KEY": "no-key",
            "MUSTER_PRICES": json.dumps({"openai/scripted": {"input": 1_000_000, "output": 5_000_000}}),
            "MUSTER_MODEL_LIMITS": json.dumps(
                {"openai/scripted": {"context": WINDOW_TOKENS, "output": 8_000, "sees": ["image"]}}
            ),
            "MUSTER_TITLES": "false",
        }
        Path(folder, "run").mkdir(mode=0o700)
        desk = Desk(Path(folder), {**kept, **own, **more, "PYTHONSAFEPATH": "1", "NO_COLOR": "1"}, model)
        started = desk.muster("up", "--detach")
        assert started.returncode == 0, started.stderr
        yield desk
        desk.muster("down")


@pytest.fixture(scope="session")
def desk(model: str) -> Iterator[Desk]:
    with a_desk(model) as desk:
        yield desk


@pytest.fixture
def frail_desk(model: str) -> Iterator[Desk]:
    """Whose workers may be killed, and are missed soon; nothing of another test is with them."""
    pools = json.dumps({"build": 1})
    with a_desk(model, MUSTER_LEASE_S="3", MUSTER_POOLS=pools) as desk:
        yield desk


@pytest.fixture
def repository(desk: Desk) -> Path:
    return desk.repository({"a.txt": "one\n", "b.txt": "b\n"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(desk: Desk) -> AsyncIterator:
    """One for all tests of a module that need no other: each begins sessions of its own in it."""
    async with desk.editing() as editor:
        yield editor
