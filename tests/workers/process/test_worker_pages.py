"""The three pages of a real worker process: what it did is what it shows, and nothing of what it was told."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CANARY = "canary-77ab19"
MODEL = "openai/scripted"
SCRIPT = f"""
rules:
  - when: {{turn: 1}}
    reply: {{tool_calls: [{{name: bash, arguments: {{command: echo {CANARY}-output}}}},
                          {{name: {CANARY}-tool, arguments: {{}}}}]}}
  - {{when: {{turn: 2}}, reply: {{text: "done {CANARY}"}}}}
"""
SETTINGS = {
    "MUSTER_MODEL": MODEL,
    "MUSTER_MODEL_API_KEY": f"sk-{CANARY}-key",
    "MUSTER_TITLES": "false",
    "MUSTER_DRAIN_GRACE_S": "600",
    "MUSTER_PRICES": json.dumps({MODEL: {"input": 1_000_000, "output": 2_000_000}}),
}


def get(port: int, path: str, accept: str = "text/plain") -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


async def until_shown(port: int, line: str) -> str:
    """A process counts a task just after its result can be read; each look is a round trip."""
    async with asyncio.timeout(60):
        while line not in (page := (await asyncio.to_thread(get, port, "/metrics"))[1]):
            pass
    return page


def value(page: str, series: str) -> float:
    found = re.search(rf"^muster_{re.escape(series)} (\S+)$", page, re.MULTILINE)
    assert found, f"{series} is not shown"
    return float(found[1])


# What stands on the page after one agent's task with two turns and one recipe's task, both done in the pool `build`.
EXACT = {
    'tasks_finished_total{outcome="completed",pool="build",reason="none"}': 2,
    'tasks_running{pool="build"}': 0,
    'task_deliveries_total{kind="first",pool="build"}': 2,
    'task_deliveries_total{kind="redelivered",pool="build"}': 0,
    'task_queue_wait_seconds_count{pool="build"}': 2,
    'task_duration_seconds_count{pool="build"}': 2,
    'lease_lost_total{pool="build"}': 0,
    'worker_slots{state="busy"}': 0,
    'worker_slots{state="free"}': 3,
    "worker_draining": 0,
    "sandbox_active": 0,
    "sandbox_created_total": 2,
    'sandbox_create_seconds_count{kind="cold"}': 2,
    "sandbox_lost_total": 0,
    'turns_total{agent="build"}': 2,
    'tool_calls_total{outcome="completed",tool="bash"}': 2,
    'tool_seconds_count{tool="bash"}': 2,
    'tool_calls_total{outcome="error",tool="other"}': 1,
    f'llm_requests_total{{code="ok",model="{MODEL}",provider="openai"}}': 2,
    f'llm_request_seconds_count{{model="{MODEL}"}}': 2,
    f'llm_limiter_wait_seconds_count{{model="{MODEL}"}}': 2,
    f'llm_rate_limited_total{{model="{MODEL}"}}': 0,
    "redis_up": 1,
}
RISEN = (
    "sandbox_command_seconds_count",
    f'llm_tokens_total{{model="{MODEL}",type="input"}}',
    f'llm_tokens_total{{model="{MODEL}",type="output"}}',
    f'llm_cost_usd_total{{model="{MODEL}"}}',
    *(f'redis_command_seconds_count{{command="{command}"}}' for command in ("write", "announce", "rate", "plain")),
)


async def test_what_a_worker_did_is_what_it_shows(start_worker, fleet, serve, debian_program):
    model = {"MUSTER_MODEL_BASE_URL": (await serve(SCRIPT)).base_url}
    worker = await start_worker(MUSTER_SLOTS="3", **SETTINGS, **model)
    request = await fleet.submit(
        agent="build", input=TaskInput(prompt=f"say {CANARY}-prompt"), tenant=f"{CANARY}-tenant"
    )
    recipe = await fleet.submit(input=TaskInput(params={"commands": [f"echo {CANARY}-recipe"]}))
    ended = [await fleet.ended(task.task_id) for task in (request, recipe)]
    [card] = await fleet.transport.workers()
    page = await until_shown(card.metrics_port, f"muster_{next(iter(EXACT))} 2.0")

    assert [result.status for result in ended] == [State.COMPLETED] * 2
    assert {series: value(page, series) for series in EXACT} == EXACT
    assert [series for series in RISEN if value(page, series) <= 0] == []
    assert value(page, "worker_claim_loop_age_seconds") < 60
    assert re.search(r'^muster_build_info\{python="3[^"]+",version="[^"]+"\} 1\.0$', page, re.MULTILINE)
    assert all(
        name in page for name in ("process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds_total")
    )

    exemplars = get(card.metrics_port, "/metrics", "application/openmetrics-text; version=1.0.0")[1]
    assert f'trace_id="{request.trace_id}"' in exemplars
    assert CANARY not in page and CANARY not in exemplars
    linted = subprocess.run([debian_program("promtool"), "check", "metrics"], input=page.encode(), capture_output=True)
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, b"")

    assert [get(card.metrics_port, path)[0] for path in ("/healthz", "/readyz", "/")] == [200, 200, 404]
    held = await fleet.submit_command("sleep 600")
    worker.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        while (answer := await asyncio.to_thread(get, card.metrics_port, "/readyz"))[0] == 200:
            pass
    assert answer == (503, "draining\n")
    assert get(card.metrics_port, "/healthz") == (200, "ok\n")
    await fleet.transport.cancel(held.task_id, by="test", reason="done")
    await worker.communicate()
    assert worker.returncode == 0
