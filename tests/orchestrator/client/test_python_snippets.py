"""The Python in the README, the pages and in the package's own docstring does what it says, against a real fleet."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import muster
from envelope.agents import AgentCard, WorkerCard
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.consumer import Delivery

pytestmark = pytest.mark.redis

ROOT = Path(__file__).parent.parent.parent.parent
PAGES = [
    snippet
    for page in ("README.md", "docs/fanout.md", "docs/client.md")
    for snippet in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    if "muster.batches" not in snippet  # test_batches_client.py
]
DOCSTRING = [textwrap.dedent((muster.__doc__ or "").split("\n\n", 1)[1])]
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))


@pytest.mark.parametrize("snippet", [*PAGES, *DOCSTRING])
async def test_a_snippet_runs_as_it_stands(snippet: str, served_stage, monkeypatch):
    stage, settings = served_stage, served_stage.muster.settings
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))
    card = WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,))
    await stage.transport.announce(card, ttl_s=60)
    scopes = []
    # what a snippet leaves to its reader
    names: dict[str, Any] = {"requests": [{"agent": "build", "prompt": "renew", "deadline_ms": 60_000}]}

    async def do_it(delivery: Delivery) -> TaskResult:
        scopes.append(delivery.request.auth_scope)
        lease = delivery.claim.lease
        return TaskResult(trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, status=State.COMPLETED)

    async with stage.serving("build", do_it):
        await eval(compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)

    assert [result.status for result in names["results"]] == [State.COMPLETED]
    assert scopes == [BUILD.auth_scope]
