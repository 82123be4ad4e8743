"""The scripted model server over real HTTP, and a bench with a loop that talks to it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType

import pytest

from workers.llm.script import load_script
from workers.llm.scripted_server import ScriptedServer

KIT = Path(__file__).parent / "mind_kit.py"


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """`mind_kit.py`, which a fresh process runs as a program, too."""
    spec = importlib.util.spec_from_file_location("mind_kit", KIT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mind_kit"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def serve() -> AsyncIterator[Callable]:
    """`await serve(script)` gives a running server; all are stopped at the end."""
    async with AsyncExitStack() as stack:

        async def start(script: str) -> ScriptedServer:
            return await stack.enter_async_context(ScriptedServer(load_script(script)))

        yield start
