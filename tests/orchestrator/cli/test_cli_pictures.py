"""What the main commands print of a fleet with work in every state, kept as text in `pictures.txt` beside this.

Write it anew, and look at the difference:
`WRITE_PICTURES=1 python -m pytest tests/orchestrator/cli/test_cli_pictures.py`.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Budget, Usage
from envelope.errors import ErrorCode
from envelope.events import AskOpened, TurnFinished
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskProgress, TaskResult
from orchestrator.cli.console import people
from orchestrator.cli.main import run
from orchestrator.submit import DRIVERS, task_request
from transport.base import Wait

pytestmark = pytest.mark.redis

PICTURES = Path(__file__).parent / "pictures.txt"
COMMANDS = (
    ("task", "list"),
    ("task", "show", "{done}"),
    ("task", "tree", "{asks}"),
    ("task", "cost", "{done}"),
    ("budget", "show", "{done}"),
    ("ask", "list"),
    ("ask", "show", "ask_0001"),
    ("pool", "list"),
    ("session", "list"),
)
# What differs from one run to the next, in the order in which it is taken out.
CHANGING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}", "TASK"),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"\b[0-9a-f]{8}\b", "TASK"),
    (r"\d\d:\d\d(:\d\d)?", "TIME"),
    (r"\b\d+(\.\d+)? s\b|\b\d+ [mhd] \d\d [smh]\b", "AGO"),
    (r"AGO (in line|running|waiting)(, AGO (in line|running|waiting))*", "TIMES"),
    (r" {2,}", "  "),
    (r" +$", ""),
)


async def at_work(stage) -> dict[str, str]:
    """A task that is done, one that failed, one that asks, one that waits for its turn; by what they are."""
    ids = {}
    for name in ("done", "failed", "asks", "waits"):
        budget = Budget(max_cost_microusd=2_000_000)
        fields = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 3_600_000}
        request = task_request(**fields, prompt=f"One that is {name}", budget=budget)
        ids[name] = (await stage.muster.submit(request)).task_id
        if name == "waits":
            break
        [claim] = await stage.transport.claim("build", "build-1", slots=1, wait_s=5)
        await play(stage, name, claim.lease)
    return ids


async def play(stage, name: str, lease) -> None:
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    usage = Usage(input_tokens=12_000, output_tokens=400)
    events = [TurnFinished(turn=1, finish_reason="stop", usage=usage, cost_microusd=250_000)]
    if name == "asks":
        events.append(
            AskOpened(
                ask_id="ask_0001",
                permission="bash",
                question="May this be run?",
                patterns=("git push",),
                detail="git push origin main",
            )
        )
    await stage.transport.emit(lease, TaskProgress(**said, seq=0, at_ms=1, status=State.RUNNING, events=tuple(events)))
    if name == "asks":
        assert await stage.transport.park(lease, Wait(asks=frozenset({"ask_0001"})))
        return
    errors = (ErrorInfo.of(ErrorCode.MODEL_FAILED, "the model does not answer"),) if name == "failed" else ()
    status = State.ERROR if errors else State.COMPLETED
    await stage.transport.finish(
        lease, TaskResult(**said, status=status, errors=errors, output=Output(text="It is done."))
    )


def still(text: str) -> str:
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


@pytest.fixture
def typed(served_stage, monkeypatch):
    """`typed(words)`: what a command prints without colours; in this process, as ten starts take long."""
    settings = served_stage.muster.settings
    for name in ("redis_url", "fleet", "state_dir"):
        monkeypatch.setenv(f"MUSTER_{name.upper()}", str(getattr(settings, name)))
    for name, value in {"TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    people.cache_clear()

    def printed(words: list[str]) -> str:
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            assert run(words, verbose=True) == 0
        return told.getvalue()

    yield printed
    people.cache_clear()


async def test_the_commands_print_what_they_printed(served_stage, typed):
    stage = served_stage
    card = AgentCard(name="build", mode="primary", pool="build", description="Changes code.")
    await stage.transport.announce(WorkerCard(worker="build-1", pool="build", slots=4, agents=(card,)), ttl_s=600)
    await stage.transport.announce(WorkerCard(worker="orchestrator-1", pool=DRIVERS, slots=4), ttl_s=600)
    ids = await at_work(stage)
    told = []
    for words in COMMANDS:
        meant = [word.format(**ids) for word in words]
        told.append(f"$ muster {' '.join(words)}\n{await asyncio.to_thread(typed, meant)}")
    picture = still("\n".join(told))

    if "WRITE_PICTURES" in os.environ:
        PICTURES.write_text(picture)
    assert picture == PICTURES.read_text(), "if it is meant so, write it anew: see the top of this file"
